"""Reads the last lines of a failed job, for the rules that look for the reason of a failure."""

import re
from collections.abc import Iterable, Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.source_line import SourceLine

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d{1,9})')
#: AWS's toolkit repeats a traceback, and leaves out the middle of a long one.
_AGAIN = 'ErrorMessage "'
#: What launchers put before a worker's lines: mpirun's, and torch's of an error.
_RANK = re.compile(r"^(?:\[1,mpirank:\d+,[^\]]*\]<std(?:out|err)>:)?(?:\[rank\d+\]: ?)?")
#: What Python puts before the lines of an ExceptionGroup.
_GROUP = re.compile(r"^ *[|+] ")
_HEADER = "Traceback (most recent call last)"
#: What Python puts before an exception in a destructor or at its exit.
_IGNORED = ("Exception ignored in", "Error in atexit")
#: Errors of launchers and AWS's toolkit, which only say that the script failed.
_LAUNCHERS = re.compile(r"^(ExecuteUserScriptError|subprocess\.CalledProcessError|[\w.]*ChildFailedError)\b")
_ERROR = re.compile(r"^[\w.]*(Error|Exception)\b(:|$)")
#: The exception at the end of a traceback may have any name: `class NoRows(BaseException)`.
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(:|$)")
#: `python -m MODULE` without the module prints no traceback (CPython, Lib/runpy.py).
_NO_MODULE = re.compile(
    r"^\S*\bpython[\d.]*: (?:Error while finding module specification for '[\w.]+' \()?"
    r"(?P<error>ModuleNotFoundError: No module named '[\w.]+'(?=\)$)|No module named [\w.]+$)"
)
#: The number of characters of a line that are quoted.
QUOTED = 160


def last_match(case: Case, patterns: Iterable[str]) -> str | None:
    """Returns the last line of a failed job that one of the patterns matches, or None if none does or the job did not
    fail.
    """
    if not case.progress.failed:
        return None
    pattern = re.compile("|".join(f"(?:{one})" for one in patterns))
    found = next((line for line in reversed(list(_lines(case))) if pattern.search(line)), None)
    return found and found.strip().removeprefix(_AGAIN)


def _lines(case: Case) -> Iterator[str]:
    """Yields the last lines without the prefixes that name their worker or draw a group of exceptions.

    Leaves out exceptions of the interpreter's shutdown, such as tqdm's. They are not why a script failed.
    """
    ignored = False
    for given in case.progress.last_lines:
        line = _GROUP.sub("", _RANK.sub("", given)).rstrip()
        if line.startswith(_IGNORED):
            ignored = True
        elif not ignored:
            yield line
        elif line and not line[0].isspace() and _HEADER not in line:
            # The exception itself.
            ignored = False


def last_error(case: Case) -> str | None:
    """Returns the error that ended a failed job's script. It is the last one, because the script may have survived
    earlier ones.
    """
    if not case.progress.failed:
        return None
    found, in_traceback = None, False
    for line in _lines(case):
        if _HEADER in line and not line.startswith(_AGAIN):
            in_traceback = True
        elif missing := _NO_MODULE.match(line):
            found, in_traceback = missing["error"], False
        elif line and not line[0].isspace():
            named = _ERROR.match(line) or (in_traceback and _RAISED.match(line))
            found = line if named and not _LAUNCHERS.match(line) else found
            in_traceback = False
    return found


def quoted(line: str) -> str:
    line = line.strip('"')
    return f'"{line if len(line) <= QUOTED else line[: QUOTED - 3] + "..."}"'


def failed_at(case: Case) -> SourceLine | None:
    """Returns the innermost frame of the last traceback that is in the user's source."""
    found = None
    for line in _lines(case):
        if found is not None and line.startswith(_AGAIN):
            return found
        frame = _FRAME.match(line)
        if _HEADER in line:
            found = None
        if frame and "site-packages" not in frame["file"]:
            script = case.sources.find(frame["file"])
            found = SourceLine(script.path, int(frame["line"])) if script else found
    return found

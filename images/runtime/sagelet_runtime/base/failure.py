"""Makes the `ErrorMessage` of a failed script: the text that AWS's toolkit collects, and the traceback that it loses.

The stock toolkit starts at the first line that holds the name of a Python error. So it loses the head of a traceback
and the frames above a `raise SomeError(...)` line. SageMaker shows the first 1,024 characters of the failure file.
Here the text is shortened to fit, so that the last frames and the message survive.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

from sagelet_runtime.base import compiler_faults, fatal_lines
from sagelet_runtime.base.hub_misses import HubMisses

#: Characters of an ErrorMessage: 1,024 less AWS's frame around it (`ExecuteUserScriptError:\nExitCode 1\n...`).
ERROR_BUDGET = 960
#: Characters collected while the script runs. 1,000 frames of a recursion fit.
COLLECT_LIMIT = 256 * 1024

#: 1: `sys.exit("reason")`. 2: argparse, and a script that Python cannot open. 126 and 127: a program that a shell
#: cannot start.
_REASONED = (1, 2, 126, 127)
_HEADER = "Traceback (most recent call last)"
_HEADER_LINE = re.compile(r"^\s*(\[rank\d+\]: ?)?Traceback \(most recent call last\):?\s*$")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
#: Beginnings of what the interpreter and torch print while they shut down. It is not why the script failed.
_AFTERMATH = ("Exception ignored in", "Error in atexit", "Error in sys.excepthook")
_FRAME = re.compile(r"^(\[rank\d+\]: ?)?\s")
_MARKS = re.compile(r"^(\[rank\d+\]: ?)?\s*[~^]+\s*$")
#: The end of a progress bar, which has no line feed, and the prefix of a rank. It is looked for in so many characters.
_BAR = re.compile(r"(?:\d%\||\dit/s\b|\ds/it\b|\dit \[).*?(?P<rank>(?:\[rank\d+\]: ?)?)$")
_BAR_END = 80
_GAP = "..."


class ErrorCollector:
    """Watches one output stream of the script, line by line, for the text of its failure.

    Collects from the first line with a known error name, as AWS does, or from the header of a traceback. A later
    traceback that is not chained to the one before replaces it, because the last one ended the script. The streams of
    a script share `misses`: libraries print on one stream what failed, and the hook prints on the other why.
    """

    def __init__(self, error_names: Iterable[str], limit: int = COLLECT_LIMIT, misses: HubMisses | None = None) -> None:
        self._start = re.compile("|".join(re.escape(name) for name in (_HEADER, *error_names) if name))
        self._limit = limit
        self._misses = misses or HubMisses()
        self._lines: list[str] = []
        self._size = 0
        #: The last line that is not blank.
        self.last_text = ""
        #: Why C++ ended the process, in its own words.
        self.fatal = ""
        self.has_traceback = False

    def feed(self, line: str) -> None:
        self._misses.feed(line)
        line = _without_bar(line)
        if _HEADER_LINE.match(line) and not self._continues():
            self._lines, self._size, self.has_traceback = [], 0, True
            self._append(line)
        elif self._lines or self._start.search(line):
            self._append(line)
        if line.strip():
            self.last_text = line
        self.fatal = self.fatal or fatal_lines.said(line)

    @property
    def lines(self) -> list[str]:
        """The collected lines, unchanged."""
        return self._lines

    def text(self) -> str:
        """Returns the lines in the form of AWS's toolkit: stripped at both ends, joined by a line feed and a space."""
        room = compiler_faults.ROOM if compiler_faults.is_compilers(self._lines) else 0
        lines = explained(self._lines, self._misses, ERROR_BUDGET - room) if self.has_traceback else self._lines
        return "\n ".join(line.strip(" :\r\n") for line in lines)

    def _continues(self) -> bool:
        return self.has_traceback and self.last_text.strip().startswith(_CHAINED + _AFTERMATH)

    def _append(self, line: str) -> None:
        if self._size < self._limit:
            self._lines.append(line[: self._limit - self._size])
            self._size += len(line) + 1


def _without_bar(line: str) -> str:
    """Returns what a terminal would show of a line: a progress bar goes back to its start for each of its states."""
    line = line.rstrip("\r\n").rpartition("\r")[2]
    before, header, after = line.rpartition(_HEADER)
    found = _BAR.search(before[-_BAR_END:]) if header else None
    return f"{found['rank']}{header}{after}" if found else line


def without_error(code: int, last_text: str, fatal: str = "") -> str:
    """Returns the ErrorMessage of a script that left no error: AWS's is empty. `last_text`: its last line on stderr.

    `fatal`: why C++ ended the process, if it said so. XLA's plugins end it with 1, and may list their flags after that.
    Python and shells print the reason last on stderr if they end with one of `_REASONED`. After any other exit code the
    last line may be anything.
    """
    if code < 0:
        ended = f"The script was ended by signal {-code} ({_signal_name(-code)})"
        return f"{ended}: {fatal}"[:ERROR_BUDGET] if fatal and -code == signal.SIGABRT else ended
    last = last_text.strip()
    reason = fatal if fatal_lines.said(last) or last.startswith("--") else ""
    return (reason or last)[:ERROR_BUDGET] if code in _REASONED else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def explained(lines: list[str], misses: HubMisses, budget: int = ERROR_BUDGET) -> list[str]:
    """Shortens a traceback to `budget` characters and adds the offline hub's message if the result lacks it."""
    short = fit(lines, budget)
    said = misses.of("\n".join(lines[_exception_index(lines) :]))
    if said is None or any(said in line for line in short):
        return short
    return [*fit(lines, budget - _length([said])), said]


def fit(lines: list[str], budget: int = ERROR_BUDGET) -> list[str]:
    """Shortens a traceback to `budget` characters. The marks under the code (`~~^^`) go first.

    Keeps the header and the outermost frame, which is the script's own. Keeps the exception's message (up to two
    thirds of what is left) and as many of the innermost frames as there is room for.
    """
    if _length(lines) <= budget:
        return lines
    lines = [line for line in lines if not _MARKS.match(line)]
    if _length(lines) <= budget:
        return lines
    lines = _without_aftermath(lines)
    at = _exception_index(lines)
    outer = lines[: min(3, at)]
    left = budget - _length([*outer, _GAP])
    message = _head(lines[at:], left * 2 // 3)
    return [*outer, _GAP, *_tail(lines[len(outer) : at], left - _length(message)), *message]


def _without_aftermath(lines: list[str]) -> list[str]:
    """Returns the lines before the first one that the interpreter printed while it shut down."""
    after = (index for index in range(1, len(lines)) if lines[index].strip().startswith(_AFTERMATH))
    return lines[: next(after, len(lines))]


def _exception_index(lines: list[str]) -> int:
    """Returns the index where the message of the last traceback begins: the first line after its indented frames."""
    headers = [index for index, line in enumerate(lines) if _HEADER_LINE.match(line)]
    first_frame = headers[-1] + 1 if headers else 1
    after = (index for index in range(first_frame, len(lines)) if not _FRAME.match(lines[index]))
    return next(after, len(lines) - 1)


def _length(lines: list[str]) -> int:
    return sum(len(line) + 2 for line in lines)


def _head(lines: list[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        left = room - _length(kept) - 2
        if len(line) > left:
            return [*kept, line[: max(left - len(_GAP), 0)] + _GAP]
        kept.append(line)
    return kept


def _tail(lines: list[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines):
        if _length(kept) + len(line) + 2 > room:
            break
        kept.insert(0, line)
    return kept

"""Finds in pip's output why it failed, and adds a remedy."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from sagelet_runtime.base.failure import ERROR_BUDGET
from sagelet_runtime.requirements import library_bounds, near_names

#: A variable of the job's Environment. With `exact`, pip installs what requirements.txt says, whatever that breaks.
PINS, EXACT = "SAGELET_PINS", "exact"
#: The most lines of pip's output in an ErrorMessage, the most characters of one line, and of all. The remedy follows
#: them.
_MOST, _LONGEST, _ROOM = 6, 240, ERROR_BUDGET - 400
#: pip's own errors, and the indented last error of a build.
_ERROR = re.compile(r"^\s*(?:ERROR|error): (?P<said>\S.*)$")
_NOISE = re.compile(
    r"for help visit|^(Exception:|To fix this you could|subprocess-exited-with-error|$)"
    r"|^pip's dependency resolver does not"
)
#: Packages that are built for one version of torch, and torch itself.
KEPT = ("torch", "torch_xla", "torchvision", "torchaudio")
_NAME = re.compile(r"[\w.-]*\w")
_CONSTRAINED = re.compile(r"The user requested \(constraint\) (\S+)")
_ASKED = re.compile(r"^\s+(The user requested [^(\s].*|\S+ \S+ depends on .*)$")
_COLLECTED = re.compile(r"^Collecting (?P<name>\S+)")
_BUILT = re.compile(r"^╰─> (?!\[|See above)(?P<name>\S.*)$")
_END_OF_BUILD = "[end of output]"
#: An error of a program that pip ran. pip has passed its output on already.
_RAN = re.compile(r"^\s*\u00d7 (?!Encountered error while )(?P<what>\S.*)$")
_ENDED, _NOTE = "error: subprocess-exited-with-error", "note: "
_ARROW, _ABOVE = "╰─> ", "╰─> See above for output."
#: An error about hashes. Indented lines follow, with the packages.
_HASHES = re.compile(r"\bhash(es)?\b", re.IGNORECASE)
#: pip itself crashed. A traceback follows.
_CRASH = "ERROR: Exception:"
#: Colours: with FORCE_COLOR pip writes as if to a terminal.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: Credentials in a URL, which git prints.
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_VERSIONS = re.compile(r"\(from versions: .{80,}?(?P<newest>(?:, [^,()]+){1,3})\)")
#: The Python of the image for old scripts (docs/how-to/images-of-their-day.md).
_OF_THEN = (3, 9)
#: A requirement that no release fits, and the releases that the index has.
_UNMET = re.compile(r"satisfies the requirement (?P<name>[\w.-]*\w).* \(from versions: (?P<versions>[^)]*)\)")
_MISSING = re.compile(r"^No matching distribution found for (?P<name>[\w.-]*\w)")
#: The cause that git and hg give. Advice follows it.
_CAUSE = re.compile(r"^(?:fatal|abort): \S")
#: Errors that say that no release fits this Python. `from versions: none` does not: the name may be misspelt.
_UNFIT = re.compile(
    r"\(from versions: (?!none\))"
    r"|requires? a different [Pp]ython"
    r"|^(Failed building wheel|Could not build wheels|failed-wheel-build|metadata-generation)"
)


class PipErrors:
    """Watches pip's output, line by line, for the reason of its failure. Used in place of an ErrorCollector."""

    has_traceback = False

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._constraints: list[str] = []
        self._asked: list[str] = []
        self._unfit = False
        #: The requirement without a release, and True if the index has none at all.
        self._unmet, self._unknown = "", False
        self._collected = ""
        self._ran = ""
        self._cause = ""
        #: What the program that runs has named as the cause of its failure.
        self._told = ""
        self._crashed = False
        self._last = ""
        self._lists = False

    def feed(self, line: str) -> None:
        line = _COLOUR.sub("", line)
        self._crashed = self._crashed or line.startswith(_CRASH)
        self._feed_program(line)
        if (constraint := _CONSTRAINED.search(line)) is not None:
            self._constraints.append(constraint[1])
        elif (asked := _ASKED.match(line)) is not None:
            self._asked.append(asked[1].strip())
        elif (error := _ERROR.match(line)) is not None:
            self._add(error["said"].strip())
        elif (built := _BUILT.match(line)) is not None and self._lines:
            self._lines.append(built["name"].strip())
        elif (collected := _COLLECTED.match(line)) is not None:
            self._collected = collected["name"]
        elif line.strip() == _END_OF_BUILD and not _ERROR.match(self._last):
            self._lines.append(self._last.strip())
        elif self._lists and line.startswith("    "):
            self._lines.append(line.strip())
        else:
            self._lists = False
        if line.strip():
            self._last = line

    def _feed_program(self, line: str) -> None:
        """Notes a program that failed after pip had passed its output on: its last line, and the command that ran."""
        if _CAUSE.match(line.strip()) and not self._told:
            self._told = line.strip()
        elif line.strip() == _ENDED and not self._last.lstrip().startswith(_NOTE):
            self._cause, self._told = self._told or self._last.strip(), ""
        elif (ran := _RAN.match(line)) is not None:
            self._ran = ran["what"]
        elif _ARROW in line:
            self._lines += [self._cause, self._ran] if self._ran and line.strip() == _ABOVE else []
            self._ran = ""

    def _add(self, said: str) -> None:
        if _NOISE.search(said):
            return
        self._unfit = self._unfit or _UNFIT.search(said) is not None
        if (unmet := _UNMET.search(said) or _MISSING.match(said)) is not None:
            self._unmet = unmet["name"]
            self._unknown = self._unknown or unmet.groupdict().get("versions") == "none"
        # This error does not name the package.
        of = f" of {self._collected}" if said == "metadata-generation-failed" and self._collected else ""
        self._lines.append(said + of)
        self._lists = _HASHES.search(said) is not None

    @property
    def lines(self) -> list[str]:
        """Empty: pip's output is not searched for errors of the compiler or of a worker."""
        return []

    def text(self) -> str:
        """Returns pip's own last errors, and the remedy if one is known."""
        # A pip that crashed or was killed named no error, so its last line is shown.
        last = [self._last.strip() or "pip printed nothing"] if self._crashed or not any(self._lines) else []
        said = "\n ".join(_fitted([_CREDENTIALS.sub("****", line) for line in (*self._lines, *last)]))
        if self._constraints:
            return f"{said}\n {self._collision()}"
        return said + (self._another_name() or self._another_python())

    def _another_name(self) -> str:
        """Returns a question about the name of a requirement. Empty if there is no reason to ask."""
        meant = near_names.near(self._unmet) if self._unmet else None
        if meant is not None:
            return (
                f"\n Did you mean {meant}? requirements.txt says {self._unmet}: do not install a version of a name "
                "that you did not mean"
            )
        if self._unknown and not self._unfit:
            return f"\n Look at the spelling: the index has no {self._unmet}, or none for this Python and platform"
        return ""

    def _another_python(self) -> str:
        if sys.version_info[:2] <= _OF_THEN or not self._unfit:
            return ""
        here = ".".join(map(str, sys.version_info[:2]))
        return (
            f"\n This is Python {here}: ask for a version that has a wheel for it. For pins of 2021 to 2023 there is "
            "an image of their day: `sagelet image build --variant py39`; in the process runtime install sagelet into "
            "Python 3.10"
        )

    def _collision(self) -> str:
        """Explains a conflict of a requirement with a constraint, which is sagelet's or the job's own."""
        said = "; ".join(dict.fromkeys(self._asked))
        bounds = set(map(library_bounds.comparable, library_bounds.bounds()))
        whole = {one: library_bounds.comparable(one) in bounds for one in self._constraints}
        told = dict.fromkeys(part for one, fits in whole.items() for part in ((one,) if fits else _apart(one)))
        kept = ", ".join(one for one in told if _is_kept(one))
        fit = ", ".join(one for one in told if library_bounds.comparable(one) in bounds)
        others = ", ".join(one for one in told if not _is_kept(one) and library_bounds.comparable(one) not in bounds)
        if others:
            said += f". Constraints of the job or of pip's configuration have {others}"
        if kept:
            said += (
                f". sagelet keeps {kept}, which torch_xla is built for: take that out of requirements.txt or ask for a "
                f"version that fits; {PINS}={EXACT} in Environment installs what it says, for native jobs"
            )
        if fit:
            said += (
                f". sagelet keeps {fit}, which the installed Transformers needs: ask for a version that fits, or "
                f"add the Transformers that you want; {PINS}={EXACT} in Environment installs what requirements.txt says"
            )
        return said


def _apart(merged: str) -> Iterator[str]:
    """Yields the constraints of which pip makes one (`torch<=2.14,==2.9.0`), each with the name."""
    name = _NAME.match(merged)
    if name is None:
        yield merged
        return
    for clause in merged[name.end() :].split(","):
        yield f"{name[0]}{clause}"


def _is_kept(constraint: str) -> bool:
    """True for `torch==2.9.0`, as sagelet's constraint file has it. A range is somebody else's."""
    return "==" in constraint and library_bounds.canonical(constraint) in KEPT


def _fitted(lines: list[str]) -> list[str]:
    """Returns the last lines for which there is room, without duplicates."""
    kept: list[str] = []
    for line in reversed(list(dict.fromkeys(filter(None, lines)))):
        short = _VERSIONS.sub(r"(from versions: ...\g<newest>)", line)
        short = short if len(short) <= _LONGEST else f"{short[: _LONGEST - 3]}..."
        if len(kept) == _MOST or sum(map(len, kept)) + len(short) > _ROOM:
            break
        kept.insert(0, short)
    return kept

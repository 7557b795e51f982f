"""Why pip failed, by its own words, and what helps."""

from __future__ import annotations

import re
import sys

from sagelet_runtime.failure import ERROR_BUDGET

#: Of the job's Environment; `exact`: pip installs what requirements.txt says, whatever breaks by it.
PINS, EXACT = "SAGELET_PINS", "exact"
#: Lines of pip's that are in an ErrorMessage, and characters of one and of all: the remedy stands behind them.
_MOST, _LONGEST, _ROOM = 6, 240, ERROR_BUDGET - 400
#: Its own errors, and what a build said last, which is indented.
_ERROR = re.compile(r"^\s*(?:ERROR|error): (?P<said>\S.*)$")
_NOISE = re.compile(
    r"for help visit|^To fix this you could|^subprocess-exited-with-error|^pip's dependency resolver does not|^$"
)
_CONSTRAINED = re.compile(r"The user requested \(constraint\) (\S+)")
_ASKED = re.compile(r"^\s+(The user requested [^(\s].*|\S+ \S+ depends on .*)$")
_COLLECTED = re.compile(r"^Collecting (?P<name>\S+)")
_BUILT = re.compile(r"^╰─> (?!\[|See above)(?P<name>\S.*)$")
_END_OF_BUILD = "[end of output]"
_VERSIONS = re.compile(r"\(from versions: .{80,}?(?P<newest>(?:, [^,()]+){1,3})\)")
#: The Python of the image of then (docs/how-to/images-of-their-day.md).
_OF_THEN = (3, 9)
#: Nothing that fits this Python. A name without a version is as likely misspelt.
_UNFIT = re.compile(
    r"\(from versions: (?!none\))|"
    r"^No matching distribution found for \S+ ?[=<>~!]"
    r"|requires a different Python"
    r"|^(Failed building wheel|Could not build wheels|failed-wheel-build|metadata-generation)"
)


class PipErrors:
    """Watches pip's output, line by line, for why it fails. Stands for an ErrorCollector."""

    has_traceback = False

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._constraints: list[str] = []
        self._asked: list[str] = []
        self._unfit = False
        self._collected = ""
        self._last = ""

    def feed(self, line: str) -> None:
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
        if line.strip():
            self._last = line

    def _add(self, said: str) -> None:
        if _NOISE.search(said):
            return
        self._unfit = self._unfit or _UNFIT.search(said) is not None
        # It does not say of what.
        of = f" of {self._collected}" if said == "metadata-generation-failed" and self._collected else ""
        self._lines.append(said + of)

    @property
    def lines(self) -> list[str]:
        """Nothing that a compiler's or a worker's error is looked for in."""
        return []

    def text(self) -> str:
        """pip's own last errors, and the remedy where there is a known one; empty: it named none."""
        said = "\n ".join(_fitted(self._lines))
        if self._constraints:
            return f"{said}\n {self._collision()}"
        return said + self._another_python()

    def _another_python(self) -> str:
        if sys.version_info[:2] <= _OF_THEN or not self._unfit:
            return ""
        here = ".".join(map(str, sys.version_info[:2]))
        return (
            f"\n This is Python {here}: ask for a version that has a wheel for it. For pins of 2021 to 2023 there is "
            "an image of their day: `sagelet image build --variant py39`"
        )

    def _collision(self) -> str:
        asked = "; ".join(dict.fromkeys(self._asked))
        kept = ", ".join(dict.fromkeys(self._constraints))
        return (
            f"{asked}. sagelet keeps {kept}, which torch_xla is built for: take that out of requirements.txt "
            f"or ask for a version that fits; {PINS}={EXACT} in Environment installs what it says, for native jobs"
        )


def _fitted(lines: list[str]) -> list[str]:
    """The last of them, each once, for which there is room."""
    kept: list[str] = []
    for line in reversed(list(dict.fromkeys(filter(None, lines)))):
        short = _VERSIONS.sub(r"(from versions: ...\g<newest>)", line)
        short = short if len(short) <= _LONGEST else f"{short[: _LONGEST - 3]}..."
        if len(kept) == _MOST or sum(map(len, kept)) + len(short) > _ROOM:
            break
        kept.insert(0, short)
    return kept

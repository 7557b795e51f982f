"""Which files of a job can become objects, and what the job's log says of the others.

S3's keys are UTF-8 text of at most 1,024 bytes; scripts name files freely, and make links, pipes and files that nobody
may read. Such a file is left out. The job goes on, the rest is uploaded, and its log names what was left out and why.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

from sagelet_engine.base.sanitizing import shown

#: Bytes of a key, by S3's user guide ("Naming Amazon S3 objects").
MAX_KEY = 1024
#: Names that one warning shows, characters of each, and warnings of one reason at once. Further names are counted.
_SHOWN, _LONGEST, _LINES = 5, 120, 10
#: Names of one directory that are remembered, so that each is reported once. Later ones are only counted.
MOST_KNOWN = 10_000


class Why(Enum):
    """Why a file is left out, and what to do. The text is about one file, or several."""

    KEY = f"A key of S3 is UTF-8 of at most {MAX_KEY} bytes with its prefix: rename the file{{s}}"
    SPECIAL = "Only files go to S3, not pipes, sockets and devices"
    LINK = "A link is uploaded if it names a file of the same directory: copy the file{s} there"
    LOOP = "The link leads back into itself: link to a file"
    MANY = "Links name more than sagelet copies: write the file{s} in place of links"
    UNREADABLE = "The server's user may not read the file{s}: change the mode"
    HOLES = "It has more holes than a disk could hold: write no sparse files"


def makes_key(key: str) -> bool:
    """True if the text can be a key. `key`: a prefix and a file's name as Python has it, with surrogates for bytes that
    are not UTF-8.
    """
    try:
        return len(key.encode()) <= MAX_KEY
    except UnicodeEncodeError:
        return False


class LeftOut:
    """The files of one directory that could not become objects, by their names in it. Each is reported once."""

    def __init__(self, where: str) -> None:
        """`where`: the directory as the script knows it, `/opt/ml/checkpoints`."""
        self._where = where
        self._known: set[str] = set()
        self._untold: dict[Why, list[str]] = {}

    def add(self, name: str, why: Why = Why.KEY) -> None:
        if name not in self._known and len(self._known) < MOST_KNOWN:
            self._known.add(name)
            self._untold.setdefault(why, []).append(name)

    def add_all(self, names: Mapping[str, Why]) -> None:
        for name in sorted(names):
            self.add(name, names[name])

    def tell(self) -> list[str]:
        """Returns warnings about files that were not reported yet, for each reason some."""
        waiting, self._untold = self._untold, {}
        return [line for why, names in waiting.items() for line in self._warnings(why, names)]

    def _warnings(self, why: Why, names: list[str]) -> Iterator[str]:
        named = _SHOWN * _LINES
        for start in range(0, min(len(names), named), _SHOWN):
            is_last = start + _SHOWN == named
            yield self._warning(why, names[start : start + _SHOWN], len(names) - named if is_last else 0)

    def _warning(self, why: Why, names: list[str], further: int) -> str:
        listed = ", ".join(f"'{shown(name, _LONGEST)}'" for name in names)
        more = f" and {further} more" if further > 0 else ""
        remedy = why.value.replace("{s}", "s" if len(names) > 1 else "")
        return f"sagelet: warning: not uploaded from {self._where}: {listed}{more}. {remedy}"

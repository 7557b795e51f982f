"""Which files of a job can become objects. S3's keys are UTF-8 text of at most 1,024 bytes; scripts name files freely.

A file whose name makes no key is left out. The job goes on, the rest is uploaded, and its log names what was left out.
"""

from sagelet_engine.base.sanitizing import shown

#: Bytes of a key, by S3's user guide ("Naming Amazon S3 objects").
MAX_KEY = 1024
#: Names that one warning shows, and characters of each.
_SHOWN, _LONGEST = 5, 120


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
        self._untold: list[str] = []

    def add(self, name: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self._untold.append(name)

    def tell(self) -> list[str]:
        """Returns a warning about files that were not reported yet. Empty if there are none."""
        names, self._untold = self._untold, []
        if not names:
            return []
        listed = ", ".join(f"'{shown(name, _LONGEST)}'" for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return [
            f"sagelet: warning: not uploaded from {self._where}: {listed}{more}. A key of S3 is UTF-8 of at most "
            f"{MAX_KEY} bytes with its prefix: rename the file{'s' if len(names) > 1 else ''}"
        ]

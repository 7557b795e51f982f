"""The contents of batches of files between the server and hosts that share no file system with it.

Standard library only: the server and its nodes share these rules. The names of batches are in `model/batch_keys.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sagelet_engine.runtimes.slurm import files as slurm_files

#: Members of a batch: bytes to append to the host's output, and names that are gone.
OUTPUT_PART, DELETED = ".output", ".deleted.json"
#: A member of a host's first batch down: which of its files come back up (see Manifest).
MANIFEST = ".manifest.json"
#: The header of OUTPUT_PART with its offset in the output, in bytes.
OFFSET = "SAGELET.offset"
#: The most bytes of each of these.
MOST_OUTPUT, MOST_DELETED, MOST_WORD = 8 * 1024**2, 32 * 1024**2, 1024**2


@dataclass(frozen=True)
class Manifest:
    """Which files of a host come up. Names are relative to `base` and always of the form `a/b`."""

    #: Relative to the data directory.
    base: str
    #: Directories whose content comes up.
    parts: Sequence[str] = ()
    #: Files and directories in `parts` that do not come up.
    kept: Sequence[str] = ()
    #: Words: small files that the server reads itself, or empty directories.
    words: Sequence[str] = ()
    #: A file of which only new bytes come up.
    output: str = ""
    #: The word that comes last.
    end: str = ""
    #: Links come up if they stay in this directory.
    links: str = ""
    #: The word in which the node says what does not come up. Empty if it does not say that.
    left_out: str = ""

    def carries(self, parts: tuple[str, ...]) -> bool:
        """True if a batch contains this path: it is below one of `self.parts` and not in or below `self.kept`."""
        return any(_below(part, parts) for part in self.parts) and not any(
            _below(kept, parts) or kept == "/".join(parts) for kept in self.kept
        )

    def takes_link(self, parts: tuple[str, ...], target: str) -> bool:
        """True if a link stays in `links` whatever the names on its way become.

        Such a link goes up to a directory that contains it, and from there only down. The names on its way are
        directories or links of the same kind, so a chain of links stays in `links`, too.
        """
        above = len(parts) - 1 - len(_names(self.links))
        names = target.split("/")
        ups = next((count for count, name in enumerate(names) if name != ".."), len(names))
        plain = all(name not in ("", ".", "..") for name in names[ups:])
        return bool(self.links) and _below(self.links, parts) and plain and ups <= above and "\0" not in target


def allocation_manifest(base: str) -> Manifest:
    """Returns the manifest of an allocation's script."""
    words = (slurm_files.NODES, slurm_files.ADDRESSES, slurm_files.CLAIMED, slurm_files.ENDING)
    return Manifest(base, words=words, output=slurm_files.LOG)


def _names(directory: str) -> tuple[str, ...]:
    return tuple(name for name in directory.split("/") if name)


def _below(directory: str, parts: tuple[str, ...]) -> bool:
    above = _names(directory)
    return len(parts) > len(above) and parts[: len(above)] == above

"""Batches of files between the server and hosts that share no file system with it: names, contents and access rules.

Standard library only. The server, its nodes and its access control share these rules.

A batch is an object `LAUNCH/HOST/down/N.tar` or `LAUNCH/HOST/up/N.tar` of the bucket `sagelet-staging-ACCOUNT`. The
credentials of a job may only read batches down to its own hosts, and write batches up from them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sagelet_engine.runtimes.slurm import files as slurm_files

#: The name that stands for the script of an allocation, in the place of a host.
ALLOCATION = "allocation"
DOWN, UP = "down", "up"
#: The actions that a job's credentials allow on its own batches.
_RIGHTS = {DOWN: "s3:GetObject", UP: "s3:PutObject"}

#: Members of a batch: bytes to append to the host's output, and names that are gone.
OUTPUT_PART, DELETED = ".output", ".deleted.json"
#: A member of a host's first batch down: which of its files come back up (see Manifest).
MANIFEST = ".manifest.json"
#: The header of OUTPUT_PART with its offset in the output, in bytes.
OFFSET = "SAGELET.offset"
#: The most bytes of each of these.
MOST_OUTPUT, MOST_DELETED, MOST_WORD = 8 * 1024**2, 32 * 1024**2, 1024**2

_BUCKET = re.compile(r"sagelet-staging-[0-9]{12}", re.ASCII)
_KEY = re.compile(r"([^/]+)/(allocation|algo-[1-9][0-9]*)/(up|down)/([0-9]{8})\.tar", re.ASCII)


def staging_bucket(account: str) -> str:
    return f"sagelet-staging-{account}"


def is_staging_bucket(name: str) -> bool:
    """True if a bucket is the staging bucket of any account."""
    return _BUCKET.fullmatch(name) is not None


def batch_name(direction: str, number: int) -> str:
    """Returns the key of a host's batch below its prefix. Numbers begin at 1, and names sort like them."""
    return f"{direction}/{number:08d}.tar"


@dataclass(frozen=True)
class BatchKey:
    """The parts of a batch's key."""

    launch_id: str
    host: str
    direction: str
    number: int

    @classmethod
    def parse(cls, key: str) -> "BatchKey | None":
        """Returns the batch that a key names, or None if it names none."""
        found = _KEY.fullmatch(key)
        return None if found is None else cls(found[1], found[2], found[3], int(found[4]))


def job_may(action: str, key: str, launch_id: str) -> bool:
    """True if a job's credentials may do `action` (such as `s3:GetObject`) on a key of its account's staging bucket."""
    found = BatchKey.parse(key)
    return found is not None and found.launch_id == launch_id and _RIGHTS[found.direction] == action


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

    def carries(self, parts: tuple[str, ...]) -> bool:
        """True if a name is below `parts` and not in `kept`."""
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

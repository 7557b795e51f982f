"""Parcels between the server and hosts that share no file system with it: their names, what is in them, who may what.

Standard library only. The server, its nodes and its access control agree by this file.

A parcel is an object `LAUNCH/HOST/down/N.tar` or `LAUNCH/HOST/up/N.tar` of the bucket `sagelet-staging-ACCOUNT`. The
credentials of a job read what goes down to its hosts, and write what comes up: nothing else, and nobody else's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sagelet_engine.runtimes import slurm_files

#: The host that is no host but the script of an allocation.
ALLOCATION = "allocation"
DOWN, UP = "down", "up"
#: What the credentials of a job may do with a parcel of its own.
_RIGHTS = {DOWN: "s3:GetObject", UP: "s3:PutObject"}

#: In a parcel: bytes to be appended to the host's output, and names that are gone.
OUTPUT_PART, DELETED = ".output", ".deleted.json"
#: In a host's first parcel down: what of its files comes back up (see Manifest).
MANIFEST = ".manifest.json"
#: Of OUTPUT_PART's member: at which byte of the output it belongs.
OFFSET = "SAGELET.offset"
#: Bytes that each of these may have.
MOST_OUTPUT, MOST_DELETED, MOST_WORD = 8 * 1024**2, 32 * 1024**2, 1024**2

_BUCKET = re.compile(r"sagelet-staging-[0-9]{12}", re.ASCII)
_KEY = re.compile(r"([^/]+)/(allocation|algo-[1-9][0-9]*)/(up|down)/([0-9]{8})\.tar", re.ASCII)


def staging_bucket(account: str) -> str:
    return f"sagelet-staging-{account}"


def is_staging_bucket(name: str) -> bool:
    """Whether a bucket is the staging bucket of any account."""
    return _BUCKET.fullmatch(name) is not None


def parcel(direction: str, number: int) -> str:
    """Of a host. Names sort as numbers do, which count from 1."""
    return f"{direction}/{number:08d}.tar"


@dataclass(frozen=True)
class ParcelKey:
    """What the key of a parcel says."""

    launch_id: str
    host: str
    direction: str
    number: int

    @classmethod
    def parse(cls, key: str) -> "ParcelKey | None":
        """None: no parcel has this key."""
        found = _KEY.fullmatch(key)
        return None if found is None else cls(found[1], found[2], found[3], int(found[4]))


def job_may(action: str, key: str, launch_id: str) -> bool:
    """Whether a job's credentials reach an object of its account's staging bucket: `s3:GetObject`, and its key."""
    found = ParcelKey.parse(key)
    return found is not None and found.launch_id == launch_id and _RIGHTS[found.direction] == action


@dataclass(frozen=True)
class Manifest:
    """What of a host's files comes up. Names below `base` are relative to it, and are of no other form than `a/b`."""

    #: Relative to the data directory.
    base: str
    #: Directories whose content comes.
    parts: Sequence[str] = ()
    #: Of that, files and directories that do not.
    kept: Sequence[str] = ()
    #: Small files that the server reads itself; an empty directory is a word, too.
    words: Sequence[str] = ()
    #: A file of which only what is new comes.
    output: str = ""
    #: The word that comes last.
    end: str = ""
    #: Links come that stay in this directory.
    links: str = ""

    def carries(self, parts: tuple[str, ...]) -> bool:
        """Whether a name is below `parts`, and not kept."""
        return any(_below(part, parts) for part in self.parts) and not any(
            _below(kept, parts) or kept == "/".join(parts) for kept in self.kept
        )

    def takes_link(self, parts: tuple[str, ...], target: str) -> bool:
        """Whether a link stays in `links` whatever becomes of the names that it leads through.

        It goes up to a directory that it lies in, and from there on down. So each link leads from one real directory to
        names below another, which are directories or links of the same kind: a chain of them stays as each one does.
        """
        above = len(parts) - 1 - len(_names(self.links))
        names = target.split("/")
        ups = next((count for count, name in enumerate(names) if name != ".."), len(names))
        plain = all(name not in ("", ".", "..") for name in names[ups:])
        return bool(self.links) and _below(self.links, parts) and plain and ups <= above and "\0" not in target


def allocation_manifest(base: str) -> Manifest:
    """Of the script of an allocation."""
    words = (slurm_files.NODES, slurm_files.ADDRESSES, slurm_files.CLAIMED, slurm_files.ENDING)
    return Manifest(base, words=words, output=slurm_files.LOG)


def _names(directory: str) -> tuple[str, ...]:
    return tuple(name for name in directory.split("/") if name)


def _below(directory: str, parts: tuple[str, ...]) -> bool:
    above = _names(directory)
    return len(parts) > len(above) and parts[: len(above)] == above

"""Names of the batches of files that go between the server and nodes without its data directory, and who may use them.

S3's access control needs these rules whether such nodes are used or not: a bucket of batches may be left over from an
earlier start of the server. `runtimes/slurm/file_sync` does everything else.
Standard library only, as nodes use it, too.

A batch is an object `LAUNCH/HOST/down/N.tar` or `LAUNCH/HOST/up/N.tar` of the bucket `sagelet-staging-ACCOUNT`. The
credentials of a job may only read batches down to its own hosts, and write batches up from them.
"""

import re
from dataclasses import dataclass

#: The name that stands for the script of an allocation, in the place of a host.
ALLOCATION = "allocation"
DOWN, UP = "down", "up"
#: The actions that a job's credentials allow on its own batches.
_RIGHTS = {DOWN: "s3:GetObject", UP: "s3:PutObject"}

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

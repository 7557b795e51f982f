"""Who may read the hub. A part of HF_ENDPOINT's path shows it, since clients of all years send that with each request.

A job's part is derived from the data directory's key pair and the job's id, as its credentials are, and ends with it.
"""

import hmac
import re

from sagelet_engine.base.keys import KeyPair

#: Where the hub is, on the server.
PATH = "/_sagelet/hub"
#: Begins a reader's part of the path; no repository's name does.
MARK = "~"
#: The owner's reader: where signatures are checked, that is who runs programs by `sagelet run --hub`.
OWNER = "owner"
#: `datasets` would tell a bucket of AWS's of each data set that is loaded, wherever it came from.
HERE_ALONE = {"HF_UPDATE_DOWNLOAD_COUNTS": "0"}
_LENGTH = 32
_READER = re.compile(rf"{MARK}([^/]*)\.[A-Za-z0-9=_-]{{{_LENGTH}}}")


def reader(keys: KeyPair, job_id: str) -> str:
    """The part of the path that shows a job."""
    return f"{MARK}{job_id}.{_seal(keys, job_id)}"


def without_reader(path: str) -> str:
    """A path for a log: who reads is seen, and what proves it is not."""
    return _READER.sub(rf"{MARK}\1.***", path)


def job_of(keys: KeyPair, part: str) -> str | None:
    """The job's id, or OWNER, or None if this data directory made no such part."""
    job_id, _, seal = part.removeprefix(MARK).rpartition(".")
    genuine = hmac.compare_digest(seal.encode("utf-8", "replace"), _seal(keys, job_id).encode())
    return job_id if genuine else None


def _seal(keys: KeyPair, job_id: str) -> str:
    return keys.derived(f"hub reader {job_id}", length=_LENGTH).replace("/", "_").replace("+", "-")

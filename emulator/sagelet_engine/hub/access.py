"""Who may read the hub. A part of HF_ENDPOINT's path identifies the reader, because clients of all years send it with
each request.

A job's part is derived from the data directory's key pair and the job's id, as its credentials are, and ends with it.
"""

import hmac
import re

from sagelet_engine.base.keys import KeyPair

#: The hub's path on the server.
PATH = "/_sagelet/hub"
PREFIX = f"{PATH}/"
#: The beginning of a reader's part of the path. No repository's name begins with it.
MARK = "~"
#: The owner's reader. Where signatures are checked, programs under `sagelet run --hub` use it.
OWNER = "owner"
#: `datasets` would report each loaded data set to a bucket of AWS, wherever the data set came from.
HERE_ALONE = {"HF_UPDATE_DOWNLOAD_COUNTS": "0"}
_LENGTH = 32
_READER = re.compile(rf"{MARK}([^/]*)\.[A-Za-z0-9=_-]{{{_LENGTH}}}")


def reader(keys: KeyPair, job_id: str) -> str:
    """Returns the part of the path that identifies a job."""
    return f"{MARK}{job_id}.{_seal(keys, job_id)}"


def without_reader(path: str) -> str:
    """Returns a path for a log: it names the reader without the part that proves it."""
    return _READER.sub(rf"{MARK}\1.***", path)


def job_of(keys: KeyPair, part: str) -> str | None:
    """Returns the job's id, or OWNER. None if this data directory did not make the part."""
    job_id, _, seal = part.removeprefix(MARK).rpartition(".")
    genuine = hmac.compare_digest(seal.encode("utf-8", "replace"), _seal(keys, job_id).encode())
    return job_id if genuine else None


def _seal(keys: KeyPair, job_id: str) -> str:
    return keys.derived(f"hub reader {job_id}", length=_LENGTH).replace("/", "_").replace("+", "-")

"""The id of a data directory. A directory keeps its id when it is moved, and a copy gets another one.

`identity.json` has the id, and which directory it was given to (`directory_identity.py`). The owner of the directory
compares the two. If they differ, the directory is a copy. Then it first forgets the hosts that its original runs (their
files are copies, too), and gets an id of its own. So the id that hosts carry, as a label, in a comment or by the files
that they lock, belongs to one directory only.
"""

import json
import logging
import shutil
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import write_private
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.state.directory_identity import DirectoryIdentity

log = logging.getLogger(__name__)

FILE = "identity.json"
#: The number of hexadecimal digits of an id. It is in the names of containers and in Slurm's comments.
_LENGTH = 24
_HOSTS = ("jobs/*/*/*/*/run", "jobs/*/*/*/attempt-*/*/run")
_FEEDERS = ("jobs/*/*/*/pipe", "jobs/*/*/*/attempt-*/pipe")


@dataclass(frozen=True)
class Identity:
    id: str
    place: DirectoryIdentity


def id_of(data: Path) -> str:
    """Returns the id that the hosts of a data directory carry, whoever owns it now. The directory's owner uses
    `establish`.

    A directory that nobody has taken yet has no hosts, so its id is nobody's. Raises SettingsError.
    """
    known = _read(data)
    return known.id if known is not None and known.place.is_of_same(DirectoryIdentity.of(data)) else _new_id()


def establish(data: Path) -> Identity:
    """Returns the identity of a directory that the caller owns. Afterwards, what the directory says of hosts is true.

    May be repeated after a crash at any point. Raises SettingsError, OSError.
    """
    for half_written in data.glob(f".{FILE}.*"):
        half_written.unlink(missing_ok=True)
    here, known = DirectoryIdentity.of(data), _read(data)
    if known is None or not known.place.is_of_same(here):
        if known is not None:
            log.warning(
                "%s is a copy of %s and has an id of its own from now on: what runs there is left alone, and jobs that "
                "were running when the copy was made end here as failed", data, known.place.path,
            )  # fmt: skip
        forget_hosts(data)
        return _write(data, Identity(_new_id(), here))
    return known if known.place == here else _write(data, replace(known, place=here))


def forget_hosts(data: Path) -> None:
    """Removes the notes of running hosts from a directory that is a copy, or has lost its id. Raises OSError."""
    for name in ("hosts", "slurm"):
        shutil.rmtree(data / "runtime" / name, ignore_errors=True)
    for pattern in _HOSTS:
        for run in data.glob(pattern):
            # The note of a host that has ended stays.
            if not (run / host_files.EXIT).exists():
                (run / host_files.STARTED).unlink(missing_ok=True)
    for pattern in _FEEDERS:
        for feeder in data.glob(pattern):
            (feeder / "feeder.json").unlink(missing_ok=True)


def _new_id() -> str:
    return uuid.uuid4().hex[:_LENGTH]


def _read(data: Path) -> Identity | None:
    path = data / FILE
    try:
        said: JsonObject = json.loads(path.read_text(encoding="utf-8"))
        return Identity(str(said["id"]), DirectoryIdentity(**said["place"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}. Make it the server's user's own") from error
    except (ValueError, TypeError, KeyError) as error:
        raise SettingsError(
            f"{path} is damaged: put it back from a copy, or remove it; then jobs that run now end as failed"
        ) from error


def _write(data: Path, identity: Identity) -> Identity:
    write_private(data / FILE, json.dumps(asdict(identity)).encode())
    return identity

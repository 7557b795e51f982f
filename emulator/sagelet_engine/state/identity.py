"""The id of a data directory. A directory keeps its id when it is moved, and a copy gets another one.

`identity.json` has the id, and which directory it was given to (`directory_identity.py`). The owner of the directory
compares the two. If they differ, the directory is a copy. Then it first forgets the hosts that its original runs (their
files are copies, too), and gets an id of its own. So the id that hosts carry, as a label, in a comment or by the files
that they lock, belongs to one directory only.
"""

import hashlib
import json
import logging
import os
import shutil
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sagelet_engine.base import held_files, json_files
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import write_private
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.runtimes.node import host_files, run_dirs
from sagelet_engine.state.directory_identity import DirectoryIdentity

log = logging.getLogger(__name__)

FILE = "identity.json"
#: The number of hexadecimal digits of an id. It is in the names of containers and in Slurm's comments.
_LENGTH = 24
_DATABASE = "sagelet.db"
_HOSTS = ("jobs/*/*/*/*/run", "jobs/*/*/*/attempt-*/*/run")
_FEEDERS = ("jobs/*/*/*/pipe", "jobs/*/*/*/attempt-*/pipe")


@dataclass(frozen=True)
class Identity:
    id: str
    place: DirectoryIdentity
    #: The name that hosts may carry if an older sagelet started them, which knew directories by their paths.
    former: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the directory that hosts may carry. New hosts get the first."""
        return (self.id, *self.former)


def names_of(data: Path) -> tuple[str, ...]:
    """Returns the names of a data directory that hosts may carry, whoever owns it now. The directory's owner uses
    `establish`.

    A copy that nobody has taken yet has no hosts. Raises SettingsError.
    """
    found = _read(data)
    if found is None:
        return (_path_name(data),)
    return found.names if found.place.is_of_same(DirectoryIdentity.of(data)) else (_new_id(),)


def establish(data: Path) -> Identity:
    """Returns the identity of a directory that the caller owns. Afterwards, what the directory says of hosts is true.

    May be repeated after a crash at any point. Raises SettingsError, OSError.
    """
    for half_written in data.glob(f".{FILE}.*"):
        half_written.unlink(missing_ok=True)
    here, found = DirectoryIdentity.of(data), _read(data)
    if found is None:
        return _write(data, _first(data, here))
    if not found.place.is_of_same(here):
        log.warning(
            "%s is a copy of %s and has an id of its own from now on: what runs there is left alone, and jobs that "
            "were running when the copy was made end here as failed", data, found.place.path,
        )  # fmt: skip
        forget_hosts(data)
        return _write(data, Identity(_new_id(), here))
    return found if found.place == here else _write(data, replace(found, place=here))


def forget_former(data: Path, identity: Identity) -> Identity:
    """Drops the former name, once no host that an older sagelet started runs any more."""
    return _write(data, replace(identity, former=())) if identity.former else identity


def forget_hosts(data: Path) -> None:
    """Removes the notes of running hosts from a copied directory, because the hosts are its original's. Raises
    OSError.
    """
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


def _first(data: Path, here: DirectoryIdentity) -> Identity:
    """Returns the identity of a directory that is new, or that an older sagelet made."""
    if not (data / _DATABASE).exists():
        return Identity(_new_id(), here)
    if _was_elsewhere(data):
        forget_hosts(data)
        return Identity(_new_id(), here)
    return Identity(_new_id(), here, former=(_path_name(data),))


def _was_elsewhere(data: Path) -> bool:
    """True if an older sagelet started hosts in a directory that this one is a copy of."""
    elsewhere = [path for path in _known_run_dirs(data) if not Path(path).is_relative_to(os.path.realpath(data))]
    # A host of this directory, from when it had another path, holds its lock.
    ours = any(held_files.is_locked(run_dirs.here(path, data) / host_files.LOCK) for path in elsewhere)
    return bool(elsewhere) and not ours


def _known_run_dirs(data: Path) -> list[str]:
    known = [json_files.read_json(path) or {} for path in (data / "runtime" / "hosts").glob("*/*.json")]
    orders = [json_files.read_json(path) or {} for path in (data / "runtime" / "slurm").glob("*/go.json")]
    paths = [str(one["run_dir"]) for one in known if "run_dir" in one]
    paths += [str(path) for order in orders for path in order.get("run_dirs", ())]
    return [os.path.realpath(path) for path in paths if os.path.isabs(path)]


def _path_name(data: Path) -> str:
    """Returns the name that sagelet used for a directory before there were ids."""
    return hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]


def _new_id() -> str:
    return uuid.uuid4().hex[:_LENGTH]


def _read(data: Path) -> Identity | None:
    path = data / FILE
    try:
        said: JsonObject = json.loads(path.read_text(encoding="utf-8"))
        return Identity(str(said["id"]), DirectoryIdentity(**said["place"]), tuple(said["former"]))
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

"""Contexts: servers that the user has given names, in one file, and which of them is current.

The file is read only where no option and no variable names a server. A change locks it, so two programs that change it
at once lose nothing, and replaces it whole.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sagelet_api.servers.values import checked_account, checked_endpoint, checked_name, checked_region
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import write_private

#: The context that is in no file: the server that commands mean if nothing names one.
DEFAULT = "default"
FILE = "contexts.json"
#: Seconds that another program may take for its change, and between looks at whether it has ended.
_PATIENCE, _EVERY = 10.0, 0.02


@dataclass(frozen=True)
class Context:
    """A server with a name. It has an `endpoint`, a `data` directory, or both."""

    name: str
    endpoint: str | None = None
    #: The server's data directory, or a directory with a copy of its key pair.
    data: Path | None = None
    account: str | None = None
    region: str | None = None
    #: The certificate authority to trust, for https.
    ca: Path | None = None

    def to_json(self) -> dict[str, str]:
        """Returns the members that are set, without the name."""
        return {name: str(value) for name, value in asdict(self).items() if value is not None and name != "name"}


_MEMBERS = frozenset(one.name for one in fields(Context)) - {"name"}


@dataclass
class Contexts:
    current: str = DEFAULT
    named: dict[str, Context] = field(default_factory=dict)

    def get(self, name: str) -> Context | None:
        """Returns a context. None for the default. Raises SettingsError for an unknown name."""
        if name == DEFAULT:
            return None
        if name not in self.named:
            raise SettingsError(self._unknown(name))
        return self.named[name]

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches  # Loaded late: for a mistyped name only.

        if like := get_close_matches(name, [*self.named, DEFAULT], 1):
            return f"There is no context {name!a}. Did you mean {like[0]}? `sagelet context ls` lists them"
        return f"There is no context {name!a}: `sagelet context ls` lists them, `sagelet context create` makes one"


def contexts_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the path of the file of contexts. Raises SettingsError if this user has no home directory."""
    if named := environ.get("SAGELET_CONTEXTS"):
        return Path(named).expanduser().absolute()
    configured = Path(environ.get("XDG_CONFIG_HOME", ""))
    if configured.is_absolute():
        return configured / "sagelet" / FILE
    try:
        return Path.home() / ".config" / "sagelet" / FILE
    except RuntimeError as error:
        raise SettingsError("contexts: this user has no home directory; name a file (SAGELET_CONTEXTS)") from error


def read_contexts(environ: Mapping[str, str] = os.environ) -> Contexts:
    """Returns the content of the file.

    Without a file, or without a home directory, there are no contexts. Raises SettingsError for a file that cannot be
    read or is damaged.
    """
    try:
        path = contexts_file(environ)
    except SettingsError:
        return Contexts()
    return _read(path)


@contextmanager
def changed_contexts(environ: Mapping[str, str] = os.environ) -> Iterator[Contexts]:
    """Gives the contexts to be changed, and writes them at the end of the block. Raises SettingsError."""
    # The file may be a link, as of people who keep all such files in one place: what it leads to is replaced.
    path = contexts_file(environ).resolve()
    with _locked(path):
        contexts = _read(path)
        yield contexts
        named = {name: contexts.named[name].to_json() for name in sorted(contexts.named)}
        text = json.dumps({"current": contexts.current, "contexts": named}, indent=2, ensure_ascii=False)
        write_private(path, f"{text}\n".encode())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"{path} cannot be changed: {error.filename}: {error.strerror}") from error
    try:
        _wait_for(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SettingsError(f"{path}: another program is changing it: try again") from None
            time.sleep(_EVERY)
        except OSError as error:
            raise SettingsError(f"{path} cannot be locked: {error.strerror}") from error


def _read(path: Path) -> Contexts:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise SettingsError(f"{path}, which has your contexts, cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _garbled(path, "it is not UTF-8") from error
    try:
        return _parsed(json.loads(text))
    except (ValueError, TypeError, SettingsError, RecursionError) as error:
        raise _garbled(path, str(error)) from error


def _garbled(path: Path, why: str) -> SettingsError:
    return SettingsError(
        f"{path}, which has your contexts, is garbled ({why}): mend it, or remove it and make them again. "
        "--endpoint or --data names a server without it"
    )


def _parsed(said: Any) -> Contexts:
    """Raises ValueError, TypeError, SettingsError."""
    if not isinstance(said, dict) or not isinstance(named := said.get("contexts"), dict):
        raise TypeError("it must hold an object with `current` and `contexts`")
    current = said.get("current", DEFAULT)
    if not isinstance(current, str):
        raise TypeError("`current` must be a name")
    return Contexts(current, {name: _context(name, members) for name, members in named.items()})


def _context(name: str, members: Any) -> Context:
    if name == DEFAULT or not isinstance(members, dict):
        raise TypeError(f"{name!a} is not a context")
    if unknown := members.keys() - _MEMBERS:
        raise ValueError(f"context {name!a} has a member {min(unknown)!a} that this sagelet does not know")
    if any(not isinstance(value, str) for value in members.values()):
        raise TypeError(f"a member of context {name!a} is not a text")
    return made_context(name, **members)


def made_context(
    name: str,
    endpoint: str | None = None,
    data: str | None = None,
    account: str | None = None,
    region: str | None = None,
    ca: str | None = None,
) -> Context:
    """Makes a context. Raises SettingsError for an invalid value."""
    if not endpoint and not data:
        raise SettingsError(f"context {name}: names no server: it needs an endpoint, a data directory, or both")
    for what, path in (("data directory", data), ("certificate authority", ca)):
        if path is not None and not Path(path).is_absolute():
            raise SettingsError(f"context {name}: the path of its {what} must be absolute")
    return Context(
        checked_name(name),
        checked_endpoint(endpoint) if endpoint else None,
        Path(data) if data else None,
        checked_account(account) if account else None,
        checked_region(region) if region else None,
        Path(ca) if ca else None,
    )

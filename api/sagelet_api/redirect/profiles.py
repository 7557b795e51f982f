"""The user's AWS profiles as client programs under `sagelet run` see them: their names, and neither keys nor ways to
get one.

A profile may hold keys, say where keys come from (a role, single sign-on, a command), or tell clients to ignore
AWS_ENDPOINT_URL. A program that ignores PYTHONPATH (`python -I`, AWS's own CLI) obeys it. So AWS_CONFIG_FILE names a
file that sagelet makes. In it each profile has sagelet's key and endpoint. The user's files are not read at all.
"""

import hashlib
import io
import os
import shlex
from collections.abc import Iterator, Mapping
from configparser import Error as ConfigError
from configparser import RawConfigParser
from pathlib import Path

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import write_private

#: Members that a profile keeps. They change what programs print and how often they ask, but not the server or the
#: identity.
KEPT = ("region", "output", "cli_pager", "cli_timestamp_format", "retry_mode", "max_attempts")
_DEFAULT = "default"


def profiles_file(environ: Mapping[str, str], endpoint: str, account: str, secret: str) -> str:
    """Makes a file for AWS_CONFIG_FILE, named by its content. If it cannot be written, returns an empty one, without
    profiles.
    """
    content = _config(_profiles(environ), endpoint, account, secret).encode()
    directory = _cache(environ) / "sagelet" / "profiles"
    path = directory / f"{hashlib.sha256(content).hexdigest()[:32]}.ini"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            write_private(path, content)
    except (OSError, SettingsError):
        return os.devnull
    return str(path)


def _config(profiles: Mapping[str, Mapping[str, str]], endpoint: str, account: str, secret: str) -> str:
    parser = RawConfigParser(default_section="")
    for name, members in profiles.items():
        parser[_header(name)] = {
            **members, "endpoint_url": endpoint, "aws_access_key_id": account, "aws_secret_access_key": secret,
        }  # fmt: skip
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


def _profiles(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns what is kept of each profile in the user's two files. `default` is always there."""
    home = Path(environ.get("HOME") or Path.home())
    config = environ.get("AWS_CONFIG_FILE") or home / ".aws" / "config"
    keys = environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials"
    found: dict[str, dict[str, str]] = {_DEFAULT: {}}
    for path in (config, keys):
        for header, members in _sections(Path(path).expanduser()):
            name = _name(header, named=path is config)
            if name is not None:
                found.setdefault(name, {}).update(members)
    return dict(sorted(found.items()))


def _sections(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the sections of a file. Yields none for a missing or unreadable file: a program would find no profile in
    it either.
    """
    parser = RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, ConfigError, UnicodeDecodeError):
        return
    for header in parser.sections():
        # botocore would read a value of several lines as another member.
        members = {name: value for name, value in parser[header].items() if name in KEPT and "\n" not in (value or "")}
        yield header, {name: value for name, value in members.items() if value}


def _name(header: str, *, named: bool) -> str | None:
    """Returns the profile of a section, or None if it describes something else. `named`: the header must contain the
    word profile.
    """
    if not named or header == _DEFAULT:
        return header
    try:
        kind, *names = shlex.split(header)
    except ValueError:
        return None
    return names[0] if kind == "profile" and len(names) == 1 else None


def _header(name: str) -> str:
    return name if name == _DEFAULT else f"profile {shlex.quote(name)}"


def _cache(environ: Mapping[str, str]) -> Path:
    configured = Path(environ.get("XDG_CACHE_HOME") or "")
    return configured if configured.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".cache"

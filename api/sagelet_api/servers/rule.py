"""The one rule for which server a command or `sagelet.connect` means.

The first of these that names a server decides, alone:

1. the command line: --context, or --endpoint, --data or both;
2. the environment: SAGELET_CONTEXT, or SAGELET_ENDPOINT, SAGELET_DATA or both, and else AWS_ENDPOINT_URL;
3. the current context (`sagelet context use`);
4. the default: the server that runs on the default data directory, else http://127.0.0.1:4599.

A data directory without an endpoint means the server that runs on it. An endpoint without a data directory means that
server; its directory is known if the server that runs on the next directory named below has this endpoint. Keys and
certificates are looked for there in any case.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sagelet_api.protocol.calls import DEFAULT_REGION
from sagelet_api.servers.contexts import DEFAULT, Context, read_contexts
from sagelet_api.servers.server import Directory, Origin, Server
from sagelet_api.servers.values import (
    DEFAULT_ACCOUNT,
    DEFAULT_ENDPOINT,
    checked_endpoint,
    is_account,
    is_same_address,
    may_lead_to,
)
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.settings import default_data_directory
from sagelet_engine.state.notice import read_notice

_OPTIONS = ("--context", "--endpoint", "--data")
_VARIABLES = ("SAGELET_CONTEXT", "SAGELET_ENDPOINT", "SAGELET_DATA")


@dataclass(frozen=True)
class Given:
    """What a command line, or a call, names."""

    context: str | None = None
    endpoint: str | None = None
    data: Path | None = None
    account: str | None = None
    region: str | None = None


@dataclass(frozen=True)
class _Naming:
    """What one place (command line, environment, current context) names. Without endpoint and data it means the default
    server."""

    by: str
    endpoint: str | None = None
    data: Path | None = None
    context: Context | None = None
    origin: Origin = Origin.ENVIRONMENT


def choose(given: Given, environ: Mapping[str, str] = os.environ, *, as_aws: bool = True) -> Server:
    """Returns the server that is meant, without asking whether it answers.

    Raises SettingsError. `as_aws`: account and region of AWS's own variables and configuration count, as for commands.
    """
    naming = next(_namings(given, environ), _Naming("", origin=Origin.NOTHING))
    beside = _data_beside(naming, environ)
    data = naming.data or beside or default_data_directory().expanduser().resolve()
    own = naming.data is not None or naming.endpoint is None or is_same_address(naming.endpoint, _default_at(data))
    typed = naming.origin is Origin.COMMAND_LINE and naming.endpoint and not naming.context
    context = naming.context or Context("")
    return Server(
        address=naming.endpoint or (_address_on(data, naming, environ)),
        data=data,
        account=_account(given, naming, context, environ if as_aws else {}),
        region=_region(given, naming, context, environ if as_aws else {}, as_aws=as_aws),
        named_by="" if typed else naming.by,
        origin=naming.origin,
        directory=Directory.OWN if own else Directory.TRIED if beside is None else Directory.NAMED,
        ca=context.ca,
        at_data=_another_at(naming.endpoint, naming.data or beside),
    )


def is_expected(server: Server) -> bool:
    """True if no message has to name the server: the command line itself names it, or it is the default one."""
    if server.origin in (Origin.COMMAND_LINE, Origin.NOTHING):
        return True
    data = default_data_directory().expanduser().resolve()
    return server.address is not None and server.data == data and is_same_address(server.address, _default_at(data))


def directory_to_serve(given: Given, environ: Mapping[str, str] = os.environ) -> Path:
    """The data directory for a new server: the first that is named. An endpoint names none, so it does not count.

    Raises SettingsError for a context that has none.
    """
    for naming in _namings(given, environ):
        if naming.data is not None:
            return naming.data
        if naming.context is not None:
            raise SettingsError(
                f"{naming.by} names no data directory that a server could be started on: "
                "name one (--data), or take the default server's (--context default)"
            )
        if naming.endpoint is None:
            break
    return default_data_directory()


def _namings(given: Given, environ: Mapping[str, str]) -> Iterator[_Naming]:
    """Yields what each place names, in the order in which the places count. Raises SettingsError."""
    yield from _named_by(given, _OPTIONS, environ, Origin.COMMAND_LINE)
    context, endpoint, data = (environ.get(name) or None for name in _VARIABLES)
    path = Path(data).expanduser().resolve() if data else None
    yield from _named_by(Given(context, endpoint, path), _VARIABLES, environ, Origin.ENVIRONMENT)
    if environ.get("AWS_ENDPOINT_URL"):
        yield _Naming("AWS_ENDPOINT_URL", checked_endpoint(environ["AWS_ENDPOINT_URL"]))
    contexts = read_contexts(environ)
    if contexts.current != DEFAULT:
        yield _of_context(contexts.get(contexts.current), f"context {contexts.current}", Origin.CURRENT_CONTEXT)


def _named_by(given: Given, names: Sequence[str], environ: Mapping[str, str], origin: Origin) -> Iterator[_Naming]:
    """Yields what a place names. `names`: what context, endpoint and data directory are called there."""
    values = (given.context, given.endpoint, given.data)
    said = [name for name, value in zip(names, values, strict=True) if value is not None]
    if given.context is not None:
        if others := " and ".join(said[1:]):
            raise SettingsError(f"{said[0]} and {others} may mean two servers: leave {said[0]} or {others} out")
        found = read_contexts(environ).get(given.context)
        by = f"context {given.context}" if origin is Origin.COMMAND_LINE else f"context {given.context}, {said[0]}"
        yield _of_context(found, by, origin)
    elif said:
        endpoint = None if given.endpoint is None else checked_endpoint(given.endpoint)
        yield _Naming(" and ".join(said), endpoint, given.data, origin=origin)


def _of_context(context: Context | None, by: str, origin: Origin) -> _Naming:
    """Returns what a context names. `context`: None for the default."""
    if context is None:
        return _Naming(by, origin=origin)
    return _Naming(by, context.endpoint, context.data, context, origin)


def _data_beside(naming: _Naming, environ: Mapping[str, str]) -> Path | None:
    """Returns SAGELET_DATA if the command line names only an endpoint."""
    is_option = naming.origin is Origin.COMMAND_LINE and naming.context is None and naming.endpoint is not None
    return Path(environ["SAGELET_DATA"]).expanduser().resolve() if is_option and environ.get("SAGELET_DATA") else None


def _address_on(data: Path, naming: _Naming, environ: Mapping[str, str]) -> str | None:
    """Returns the endpoint of the server that runs on a directory. If no server runs there, returns the endpoint that
    something else names, or None."""
    if (notice := read_notice(data)) is not None:
        return notice.endpoint
    if naming.data is None:
        return DEFAULT_ENDPOINT
    beside = environ.get("AWS_ENDPOINT_URL") if naming.by == "SAGELET_DATA" else None
    return checked_endpoint(beside) if beside else None


def _another_at(endpoint: str | None, data: Path | None) -> str:
    """Returns the endpoint of the server that runs on a named directory. Empty if it may be the named one."""
    notice = read_notice(data) if endpoint is not None and data is not None else None
    return notice.endpoint if endpoint and notice and not may_lead_to(endpoint, notice.endpoint) else ""


def _default_at(data: Path) -> str:
    notice = read_notice(data)
    return DEFAULT_ENDPOINT if notice is None else notice.endpoint


def _account(given: Given, naming: _Naming, context: Context, environ: Mapping[str, str]) -> str:
    key = environ.get("AWS_ACCESS_KEY_ID", "")
    own = key if is_account(key) else None
    candidates = (own, context.account) if naming.origin is Origin.CURRENT_CONTEXT else (context.account, own)
    return given.account or next((one for one in candidates if one), DEFAULT_ACCOUNT)


def _region(given: Given, naming: _Naming, context: Context, environ: Mapping[str, str], *, as_aws: bool) -> str:
    own = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    candidates = (own, context.region) if naming.origin is Origin.CURRENT_CONTEXT else (context.region, own)
    found = given.region or next((one for one in candidates if one), None)
    return found or (_configured_region(environ) if as_aws else DEFAULT_REGION)


def _configured_region(environ: Mapping[str, str]) -> str:
    """Returns the region of the AWS profile in use, otherwise sagelet's default."""
    if not Path(environ.get("AWS_CONFIG_FILE", "~/.aws/config")).expanduser().is_file():
        return DEFAULT_REGION
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        return Session().get_config_variable("region") or DEFAULT_REGION
    except BotoCoreError:  # The profile is not there, or the file is garbled: no reason not to run.
        return DEFAULT_REGION

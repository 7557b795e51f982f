"""`sagelet context`: names for servers, and which of them commands mean."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from sagelet_api.cli.options import ContextName, absolute, checked, json_option, server_in
from sagelet_api.cli.output import Column, console, facts, show_rows
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, say
from sagelet_api.servers import values
from sagelet_api.servers.contexts import DEFAULT, Context, Contexts, changed_contexts, read_contexts
from sagelet_api.servers.rule import Given, choose
from sagelet_api.servers.server import Directory, Server
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.wire import JsonObject

#: Variables that come before the current context.
_FIRST = ("SAGELET_CONTEXT", "SAGELET_ENDPOINT", "SAGELET_DATA", "AWS_ENDPOINT_URL")


@click.group(cls=Suggesting)
def context() -> None:
    """Names for servers; commands use the current one.

    A context holds an endpoint, a data directory, or both, and may hold account, region and certificate authority. The
    context `default` is always there: the server on the default data directory, else http://127.0.0.1:4599.

    Which server a command means is decided by the first of these that names one: --context, --endpoint or --data; the
    environment (SAGELET_CONTEXT, SAGELET_ENDPOINT, SAGELET_DATA, else AWS_ENDPOINT_URL); the current context; the
    default.
    """


@context.command()
@json_option
def ls(as_json: bool) -> None:
    """List the contexts; `*` marks the current one."""
    contexts = read_contexts()
    servers = [(name, _server_of(name)) for name in (DEFAULT, *contexts.named)]
    if as_json:
        echo_json([{**_as_json(name, contexts), "current": name == contexts.current} for name, _ in servers])
        return
    columns: Sequence[Column[tuple[str, Server]]] = (
        Column("NAME", lambda one: one[0]),
        Column("CURRENT", lambda one: "*" if one[0] == contexts.current else ""),
        Column("ENDPOINT", lambda one: one[1].address),
        Column("DATA", lambda one: str(one[1].data) if one[1].directory is Directory.OWN else "", optional=1),
        Column("ACCOUNT", lambda one: one[1].account, optional=2),
        Column("REGION", lambda one: one[1].region, optional=3),
    )
    show_rows(columns, servers)
    _tell_what_comes_first()


@context.command()
@click.argument("name", type=ContextName())
@json_option
def use(name: str, as_json: bool) -> None:
    """Make a context the current one.

    `sagelet context use default` goes back to the default server.
    """
    with changed_contexts() as contexts:
        contexts.get(name)
        contexts.current = name
    if as_json:
        echo_json({"current": name})
        return
    click.echo(f"Commands mean {_place(_server_of(name))} from now on")
    _tell_what_comes_first()


@context.command()
@click.argument("name", type=ContextName())
@click.option("--endpoint", callback=checked(values.checked_endpoint), help="http://HOST:PORT or https://HOST:PORT.")
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), callback=absolute, help="The server's data directory."
)
@click.option("--account", callback=checked(values.checked_account), help="12 digits; commands take it by default.")
@click.option("--region", callback=checked(values.checked_region), help="Commands take it by default.")
@click.option("--ca", type=click.Path(path_type=Path), callback=absolute, help="For https: the authority to trust.")
@click.option("--use", "is_used", is_flag=True, help="Make it the current one.")
@click.option("--replace", is_flag=True, help="Take the place of a context of this name.")
@json_option
def create(
    name: str,
    endpoint: str | None,
    data: Path | None,
    account: str | None,
    region: str | None,
    ca: Path | None,
    is_used: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Give a server a name.

    A server of this machine is best named by --data: its endpoint may change, and its key pair and certificate are
    there. Name another machine's or a container's server by --endpoint, and, where it checks signatures, by the
    directory that has a copy of its key pair (--data). Nothing is asked of the server.
    """
    if name == DEFAULT:
        raise SettingsError(f"{DEFAULT} is the server that is meant where nothing is named: take another name")
    if endpoint is None and data is None:
        raise click.UsageError("Name the server: --endpoint, --data or both")
    if ca is not None and not ca.is_file():
        raise SettingsError(f"--ca {ca}: no such file")
    made = Context(name, endpoint, data, account, region, ca)
    with changed_contexts() as contexts:
        if name in contexts.named and not replace:
            raise SettingsError(f"There is a context {name}: give this one another name, or --replace it")
        contexts.named[name] = made
        contexts.current = name if is_used else contexts.current
    if as_json:
        echo_json({"name": name, **made.to_json()})
        return
    click.echo(f"{name}: {_place(_server_of(name))}")
    if is_used:
        _tell_what_comes_first()
    else:
        say(f"`sagelet context use {name}` makes it the current one; --context {name} means it once", err=True)


@context.command()
@click.argument("name", required=False, type=ContextName())
@json_option
@click.pass_context
def show(click_context: click.Context, name: str | None, as_json: bool) -> None:
    """Show a context, or which server commands mean now.

    Without NAME: the server that a command without options means, and what names it.
    """
    server = server_in(click_context) if name is None else _server_of(name)
    if as_json:
        echo_json(_server_json(server) if name is None else _as_json(name, read_contexts()))
        return
    console().print(facts([(title, text) for title, text in _rows(server) if text]))


def _rows(server: Server) -> list[tuple[str, str]]:
    known = "" if server.directory is Directory.OWN else "not known; keys are looked for in "
    return [
        ("Named by", server.named_by or "nothing: the default"),
        ("Endpoint", server.address or "none: no server runs on the data directory"),
        ("Data", f"{known}{server.data}"),
        ("Account", server.account),
        ("Region", server.region),
        ("CA", str(server.ca or "")),
    ]


def _server_json(server: Server) -> JsonObject:
    return {
        "named_by": server.named_by,
        "endpoint": server.address,
        "data": str(server.data) if server.directory is Directory.OWN else None,
        "account": server.account,
        "region": server.region,
        "ca": None if server.ca is None else str(server.ca),
    }


@context.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=ContextName())
@json_option
def rm(names: tuple[str, ...], as_json: bool) -> None:
    """Remove contexts. Their servers stay as they are.

    The current context is not removed: `sagelet context use default` first.
    """
    with changed_contexts() as contexts:
        for name in names:
            if contexts.get(name) is None:
                raise SettingsError(f"{DEFAULT} is always there")
            if name == contexts.current:
                raise SettingsError(f"{name} is the current context: `sagelet context use {DEFAULT}` first")
        for name in dict.fromkeys(names):
            del contexts.named[name]
    if as_json:
        echo_json({"removed": list(names)})
        return
    for name in dict.fromkeys(names):
        click.echo(f"{name}: removed")


def _place(server: Server) -> str:
    return server.address or f"the server on {server.data}, where none runs now"


def _server_of(name: str) -> Server:
    return choose(Given(context=name))


def _as_json(name: str, contexts: Contexts) -> JsonObject:
    """Returns the members as the file has them. For the default: what it means."""
    found = contexts.get(name)
    return {"name": name, **(_server_json(_server_of(name)) if found is None else found.to_json())}


def _tell_what_comes_first() -> None:
    if found := [name for name in _FIRST if os.environ.get(name)]:
        say(f"Set here, and before the current context: {', '.join(found)}", err=True)

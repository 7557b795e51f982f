"""`sagelet hub`: models, data sets and metrics that clients of the Hugging Face Hub find without a network."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from sagelet_api.cli.directories import known_directory, own_directory
from sagelet_api.cli.hub_endpoint import hub_endpoint
from sagelet_api.cli.options import directory_options, json_option
from sagelet_api.cli.output import console
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, printable, size
from sagelet_api.servers.server import Server
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.failpoints import VARIABLE, arm
from sagelet_engine.hub import families
from sagelet_engine.hub.adding import Added, add
from sagelet_engine.hub.names import MAIN, Kind, check_new_repository_id, check_repository_id, check_revision
from sagelet_engine.hub.sources import Bucket, Folder, Source, UnfitSource, named_by_cache
from sagelet_engine.hub.store import HubStore
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.s3.errors import NoSuchBucket
from sagelet_engine.s3.store import S3Store
from sagelet_engine.state.contents import check_complete
from sagelet_engine.state.notice import read_notice


@click.group(cls=Suggesting)
def hub() -> None:
    """Models and data sets for jobs without a network.

    Every job finds this hub in HF_ENDPOINT, so `from_pretrained("gpt2")` and `load_dataset("glue", "sst2")` run as
    written. It belongs to the data directory. A server may run on the directory meanwhile.
    """
    arm(os.environ.get(VARIABLE, ""))


def _kind_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --dataset and --space, of which at most one is allowed."""
    for name, what in (("space", "a metric of `evaluate`"), ("dataset", "a data set")):
        command = click.option(f"--{name}", is_flag=True, help=f"It is {what}, not a model.")(command)
    return command


def _kind(dataset: bool, space: bool) -> Kind:
    if dataset and space:
        raise click.UsageError("--dataset and --space: name one")
    return Kind.DATASET if dataset else Kind.SPACE if space else Kind.MODEL


@hub.command("add")
@click.argument("sources", metavar="DIRECTORY|s3://BUCKET[/PREFIX]", nargs=-1, required=True)
@click.option("--as", "repository", metavar="[ORGANISATION/]NAME", help="What scripts call it.")
@_kind_options
@click.option(
    "--revision", default=MAIN, show_default=True, help="The branch or tag that leads to it, or a commit's number."
)
@json_option
@directory_options
def add_(
    sources: tuple[str, ...],
    repository: str | None,
    dataset: bool,
    space: bool,
    revision: str,
    as_json: bool,
    server: Server,
) -> None:
    """Make a repository from a directory.

    All files in it, or under a prefix of a bucket here, are copied. An existing repository gets a new revision in one
    step; jobs that read the former revision go on with it. A repository in huggingface_hub's own cache
    (~/.cache/huggingface/hub/models--ORGANISATION--NAME) needs no name. Links that lead out of the directory are
    refused.

    A data set whose directories are configurations (sst2/train.csv) and that has no README.md gets one that describes
    them.
    """
    source = _one(sources, repository)
    kind, name = _named(source, repository, _kind(dataset, space))
    check_revision(revision)
    data = own_directory(server)
    with _source(source, kind, name, data) as found:
        try:
            added = _shown(HubStore(data), found, kind, name, revision)
        except OSError as error:
            raise SettingsError(f"{error.filename or source}: {error.strerror or error}") from error
        except UnfitSource as error:
            raise UnfitSource(f"{source}: {error}") from error
    if as_json:
        echo_json(
            {"kind": kind.singular, "id": name, "revision": revision, "commit": added.commit.id, "files": added.files,
             "bytes": added.bytes}
        )  # fmt: skip
        return
    if added.configurations:
        click.echo(f"README.md was made: the configurations are {', '.join(map(printable, added.configurations))}")
    click.echo(f"{kind.singular} {name}, {revision}: {added.files} files, {size(added.bytes)}, as {added.commit.id}")


def _one(sources: tuple[str, ...], repository: str | None) -> str:
    if len(sources) == 2 and repository is None:
        source, name = sources
        raise click.UsageError(f"the name goes behind --as: `sagelet hub add {source} --as {name}`")
    if len(sources) > 1:
        raise click.UsageError(f"one directory at a time, not {len(sources)}")
    return sources[0]


def _named(source: str, repository: str | None, kind: Kind) -> tuple[Kind, str]:
    cached = None if source.startswith("s3://") else named_by_cache(Path(source).expanduser())
    if repository is None and cached is None:
        raise click.UsageError("--as NAME: say what scripts call it")
    if repository is None and cached is not None:
        return cached[0], check_new_repository_id(cached[1])
    # Its cache knows its kind. A flag may say the same, or is needed if nothing else does.
    return cached[0] if cached is not None and kind is Kind.MODEL else kind, check_new_repository_id(repository or "")


@contextmanager
def _source(source: str, kind: Kind, name: str, data: Path) -> Iterator[Source]:
    if not source.startswith("s3://"):
        yield Folder(_directory(source, kind, name))
        return
    try:
        uri = S3Uri.parse(source)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    check_complete(data)
    if not (data / "s3").is_dir():
        raise _no_bucket(data, uri)
    objects = S3Store(data / "s3", SystemClock())
    try:
        yield Bucket(objects, uri)
    except NoSuchBucket as error:
        raise _no_bucket(data, uri) from error
    finally:
        objects.close()


def _directory(source: str, kind: Kind, name: str) -> Path:
    directory = Path(source).expanduser()
    if directory.is_dir():
        return directory
    if directory.exists():
        raise SettingsError(f"{source}: is a file: name the directory it is in")
    is_model = kind is Kind.MODEL
    download = f"`hf download {name}{'' if is_model else f' --repo-type {kind.singular}'}`"
    tiny = f", or make a small random model with `{families.command(name)}`" if is_model else ""
    raise SettingsError(
        f"{source}: no such directory. `sagelet hub add` adds files that are here: bring them ({download} where there "
        f"is a network){tiny}. Jobs of a server with a network find the real Hub's as they are (`sagelet docs hub`)"
    )


def _no_bucket(data: Path, uri: S3Uri) -> SettingsError:
    return SettingsError(
        f"--data {data}: holds no bucket {uri.bucket}. Buckets on AWS are not read: copy the files to a directory here"
    )


def _shown(store: HubStore, source: Source, kind: Kind, name: str, revision: str) -> Added:
    """Adds a repository and, on a terminal, shows the progress."""
    done = 0
    with console(stderr=True).status("") as line:

        def seen(path: str, count: int) -> None:
            nonlocal done
            done += count
            line.update(f"{size(done)}, {printable(path)}")

        return add(store, source, kind, name, revision, SystemClock().now_ms(), seen)


@hub.command("make-tiny")
@click.argument("model")
@click.option("--like", help="The family, where the name does not say it.")
@json_option
@directory_options
def make_tiny(model: str, like: str | None, as_json: bool, server: Server) -> None:
    """Make a small random model, for tests.

    MODEL is the name that scripts load: gpt2, distilgpt2, bert-base-uncased, distilbert-base-uncased, roberta-base,
    t5-small or another of their families. It has the architecture, two small layers of random weights, and a tokenizer
    that takes any text. A training run does the same steps as with the real model, and learns nothing useful. An
    existing model of that name gets a new revision. Transformers of the jobs' own Python make it: `sagelet
    install-torch` or `sagelet image build` brings them.
    """
    from sagelet_api.cli.tiny_model import tiny_model

    store = HubStore(own_directory(server))
    made = tiny_model(check_new_repository_id(model), like)
    with store.draft() as draft:
        made.put_in(draft)
        commit = draft.publish(Kind.MODEL, model, MAIN, SystemClock().now_ms())
    total = sum(file.size for file in commit.files.values())
    if as_json:
        echo_json(
            {"kind": "model", "id": model, "like": made.family, "parameters": made.parameters, "commit": commit.id,
             "files": len(commit.files), "bytes": total}
        )  # fmt: skip
        return
    click.echo(f"model {model}: {made.parameters} random parameters in the shape of {made.family}, {size(total)}")


@hub.command()
@json_option
@directory_options
def ls(as_json: bool, server: Server) -> None:
    """List the repositories."""
    store = HubStore(known_directory(server))
    found = store.repositories()
    if as_json:
        echo_json(
            [
                {
                    "kind": one.kind.singular,
                    "id": one.id,
                    "revisions": dict(one.refs),
                    "commits": len(one.commits),
                    "files": len(one.newest.files),
                    "bytes": one.size,
                    "changed_ms": one.newest.created_ms,
                }
                for one in found
            ]
        )
        return
    if not found:
        click.echo("The hub is empty. `sagelet hub add DIR --as ORGANISATION/NAME` adds a repository.", err=True)
    for one in found:
        changed = datetime.fromtimestamp(one.newest.created_ms / 1000, tz=timezone.utc)
        names = ",".join(sorted(one.refs))
        click.echo(f"{one.kind.singular}\t{one.id}\t{names}\t{size(one.size)}\t{changed:%Y-%m-%d %H:%M}Z")


@hub.command()
@click.argument("repository", metavar="[ORGANISATION/]NAME")
@_kind_options
@click.option("--former", is_flag=True, help="Only the commits that no branch or tag leads to any more.")
@json_option
@directory_options
def remove(repository: str, dataset: bool, space: bool, former: bool, as_json: bool, server: Server) -> None:
    """Remove a repository.

    Its files are removed, too, except those that another repository has. A job that is reading a file can read it to
    its end.
    """
    data = own_directory(server)
    kind, store = _kind(dataset, space), HubStore(data)
    check_repository_id(repository)
    if not store.root.is_dir():
        raise SettingsError(f"--data {data}: has no {kind.singular} {repository}")
    dropped = store.forget_former(kind, repository) if former else store.remove(kind, repository)
    if dropped is None:
        raise SettingsError(f"--data {data}: has no {kind.singular} {repository}{_elsewhere(store, kind, repository)}")
    if as_json:
        echo_json({"kind": kind.singular, "id": repository, "files": dropped.files, "bytes": dropped.bytes})
        return
    click.echo(f"{kind.singular} {repository}: {dropped.files} files gone, {size(dropped.bytes)}")


def _elsewhere(store: HubStore, kind: Kind, repository: str) -> str:
    """Returns a hint: a repository of the same name and another kind, or where to look."""
    other = next((one for one in Kind if one is not kind and store.find(one, repository) is not None), None)
    if other is None:
        return "; `sagelet hub ls` lists what there is"
    flag = "" if other is Kind.MODEL else f" --{other.singular}"
    return f", but a {other.singular}: `sagelet hub remove {repository}{flag}`"


@hub.command()
@click.option(
    "--port",
    default=4599,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one.",
)
@directory_options
def serve(port: int, server: Server) -> None:
    """Serve the hub without jobs.

    Every server has the hub, and jobs find it; `sagelet run --hub -- COMMAND` brings other programs there. If no server
    runs on the data directory, this command serves the hub alone, on 127.0.0.1, until it is interrupted. It prints the
    HF_ENDPOINT to set.
    """
    from sagelet_api.hub.alone import serve_alone

    data = known_directory(server)
    notice = read_notice(data)
    if notice is None:
        serve_alone(data, port)
        return
    click.echo("The server that runs on the data directory has the hub:", err=True)
    click.echo(f"HF_ENDPOINT={hub_endpoint(server.at(notice.endpoint))}")

"""`sagelet up`: the server in the foreground."""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

import sagelet_engine
from sagelet_engine.errors import SettingsError
from sagelet_engine.keys import FILE as KEY_FILE
from sagelet_engine.keys import ca_file
from sagelet_engine.settings import GpuPolicy, RuntimeChoice, Settings, default_data_directory, default_max_jobs

if TYPE_CHECKING:
    from sagelet_api.serve import Sagelet

F = TypeVar("F", bound=Callable[..., Any])


def option(name: str, **attributes: Any) -> Callable[[F], F]:
    """An option that is also an environment variable SAGELET_*."""
    variable = f"SAGELET_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, envvar=variable, show_envvar=True, show_default=True, **attributes)


def choices(values: type[RuntimeChoice] | type[GpuPolicy]) -> click.Choice[str]:
    return click.Choice([value.value for value in values])


class FileSystem(click.types.StringParamType):
    """`fs-0123456789abcdef0=/directory`; several in a variable are put apart as in PATH."""

    name = "ID=DIRECTORY"
    envvar_list_splitter = os.pathsep


class Size(click.types.StringParamType):
    """Bytes, or a number with K, M, G or T (powers of 1024; `GB` and `GiB` are `G`)."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int):
            return value
        text = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
        if text is None:
            self.fail(f"{value!r} is no size; write 0, 500M or 5G", param, ctx)
        return int(float(text[1]) * 1024 ** " KMGT".index(text[2].upper() or " "))


@click.command()
@option("--host", default="127.0.0.1", help="Address to listen on.")
@option("--port", default=4599, type=int, help="Port to listen on; 0 takes a free one.")
@option(
    "--data",
    default=default_data_directory,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of jobs, logs and metrics.",
)
@option("--runtime", default="auto", type=choices(RuntimeChoice), help="What runs the jobs.")
@option("--gpus", default="auto", type=choices(GpuPolicy), help="What a job of a GPU instance type gets.")
@option("--max-jobs", default=default_max_jobs, type=int, help="Jobs that run at the same time.")
@option(
    "--max-hosts",
    type=int,
    help="Hosts of all jobs at the same time, and so the most of one job.",
    default=None,
)
@option("--stop-grace", default=120, type=int, help="Seconds between SIGTERM and SIGKILL of a stopped job.")
@option("--spot-discount", default=0.7, type=float, help="Share of its time that a managed spot job is not billed for.")
@option("--enforce-iam", is_flag=True, help="Refuse jobs whose RoleArn IAM does not know or SageMaker may not assume.")
@option("--stubs", is_flag=True, help="Have processing jobs, endpoints and the like recorded, though nothing runs.")
@option("--compile-cache-size", default="5G", type=Size(), help="Of compiled programs kept from job to job; 0: none.")
@option("--auth", is_flag=True, help="Let in only what is signed with the key pair in DATA/credentials.")
@option("--tls", is_flag=True, help="HTTPS, with a certificate of its own: DATA/tls/ca.pem is for AWS_CA_BUNDLE.")
@option("--image-rules", type=click.Path(dir_okay=False, path_type=Path), help="TOML file with your image rules.")
@option(
    "--file-system",
    multiple=True,
    type=FileSystem(),
    help="A directory that stands in for an EFS or FSx for Lustre file system; may be given several times.",
)
@option("--log-level", default="warning", type=click.Choice(["debug", "info", "warning", "error"]), help="To stderr.")
def up(
    host: str,
    port: int,
    data: Path,
    runtime: str,
    gpus: str,
    max_jobs: int,
    max_hosts: int | None,
    stop_grace: int,
    spot_discount: float,
    enforce_iam: bool,
    stubs: bool,
    compile_cache_size: int,
    auth: bool,
    tls: bool,
    image_rules: Path | None,
    file_system: tuple[str, ...],
    log_level: str,
) -> None:
    """Start the server. Ctrl-C or SIGTERM ends it; running jobs run on and are adopted by the next start."""
    from sagelet_api.serve import Sagelet

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = Settings(
        data=data.expanduser().resolve(),
        host=host,
        port=port,
        runtime=RuntimeChoice(runtime),
        gpus=GpuPolicy(gpus),
        max_jobs=max_jobs,
        max_hosts=max_hosts,
        stop_grace_seconds=stop_grace,
        spot_discount=spot_discount,
        enforce_iam=enforce_iam,
        stubs=stubs,
        compile_cache_bytes=compile_cache_size,
        auth=auth,
        tls=tls,
        image_rules=image_rules,
        file_systems=_by_id(file_system),
    )
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    resets: list[str] = []

    def on_reset(scope: str) -> None:
        resets.append(scope)
        over.set()

    server = Sagelet(settings, on_reset=on_reset)
    adopted = server.start()
    _announce(server, settings, adopted)
    over.wait()
    port = server.server.port
    running = [job.key.name for job in server.stop()]
    if not resets:
        _farewell(running)
        return
    _reset(settings, resets[0])
    _start_again(port)


def _announce(server: "Sagelet", settings: Settings, adopted: int) -> None:
    choice = server.choice
    click.echo(
        f"sagelet {sagelet_engine.__version__} ready: {server.server.endpoint} "
        f"(runtime {choice.runtime.name}: {choice.reason}; data {settings.data})"
    )
    for line in _how_to_come_in(settings):
        click.echo(line)
    if adopted:
        click.echo(f"{adopted} unfinished job{'s are' if adopted > 1 else ' is'} taken up again")


def _reset(settings: Settings, scope: str) -> None:
    from sagelet_engine.clock import SystemClock
    from sagelet_engine.runtimes.choose import every_runtime
    from sagelet_engine.state.resetting import reset_data

    click.echo(f"sagelet reset: {scope} in {settings.data}")
    for kept in reset_data(settings.data, scope, every_runtime(settings, SystemClock())):
        click.echo(f"Files that are not sagelet's were among the objects; they are in {kept}")


def _start_again(port: int) -> NoReturn:
    """The same program in the same process: nothing of what was in memory, moto's state among it, is left."""
    sys.stdout.flush()
    # Of an option that is given twice the last counts; --port 0 would take another one.
    os.execv(sys.executable, [*sys.orig_argv, "--port", str(port)])


def _how_to_come_in(settings: Settings) -> list[str]:
    lines = []
    if settings.auth:
        lines.append(
            f"signatures are checked: `sagelet run`, or AWS_SHARED_CREDENTIALS_FILE={settings.data / KEY_FILE}"
        )
    if settings.tls:
        lines.append(f"the certificate is of sagelet's own: `sagelet run`, or AWS_CA_BUNDLE={ca_file(settings.data)}")
    return lines


def _by_id(file_systems: tuple[str, ...]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in file_systems:
        identifier, separator, directory = text.partition("=")
        if not separator:
            raise SettingsError(f"--file-system {text}: must be of the form fs-0123456789abcdef0=/directory")
        if identifier in found:
            raise SettingsError(f"--file-system {text}: {identifier} has a directory already; give it one")
        found[identifier] = Path(directory).expanduser()
    return found


def _farewell(running: list[str]) -> None:
    if not running:
        click.echo("sagelet stopped; no job was running")
        return
    click.echo(f"sagelet stopped; {len(running)} running on, adopted at the next start: {', '.join(sorted(running))}")

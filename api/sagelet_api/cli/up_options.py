"""The settings of a server as options of `sagelet up`."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sagelet_api.cli.options import data_option
from sagelet_engine.errors import SettingsError
from sagelet_engine.settings import GpuPolicy, RuntimeChoice, Settings, default_max_jobs

F = TypeVar("F", bound=Callable[..., Any])


def option(name: str, **attributes: Any) -> Callable[[F], F]:
    """An option that is also an environment variable SAGELET_*."""
    variable = f"SAGELET_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, **{"envvar": variable, "show_envvar": True, "show_default": True, **attributes})


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


OPTIONS = (
    option("--host", default="127.0.0.1", help="Address to listen on."),
    option("--port", default=4599, type=int, help="Port to listen on; 0 takes a free one."),
    data_option,
    option("--runtime", default="auto", type=choices(RuntimeChoice), help="What runs the jobs."),
    option("--gpus", default="auto", type=choices(GpuPolicy), help="What a job of a GPU instance type gets."),
    option(
        "--max-jobs",
        default=default_max_jobs,
        show_default="half of the CPU cores, at least 2",
        type=int,
        help="Jobs that run at the same time.",
    ),
    option("--max-hosts", type=int, default=None, help="Hosts of all jobs at the same time, so the most of one job."),
    option("--stop-grace", default=120, type=int, help="Seconds between SIGTERM and SIGKILL of a stopped job."),
    option("--spot-discount", default=0.7, type=float, help="Share of its time that a spot job is not billed for."),
    option(
        "--enforce-iam", is_flag=True, help="Refuse jobs whose RoleArn IAM does not know or SageMaker may not assume."
    ),
    option("--stubs", is_flag=True, help="Have processing jobs, endpoints and the like recorded, though nothing runs."),
    option(
        "--compile-cache-size", default="5G", type=Size(), help="Of compiled programs kept from job to job; 0: none."
    ),
    option("--auth", is_flag=True, help="Let in only what is signed with the key pair in DATA/credentials."),
    option("--tls", is_flag=True, help="HTTPS, with a certificate of its own: DATA/tls/ca.pem is for AWS_CA_BUNDLE."),
    option("--image-rules", type=click.Path(dir_okay=False, path_type=Path), help="TOML file with your image rules."),
    option(
        "--file-system",
        multiple=True,
        type=FileSystem(),
        help="A directory that stands in for an EFS or FSx for Lustre file system; may be given several times.",
    ),
)


def settings_options(command: F) -> F:
    """All settings, as the keyword arguments of `settings_of`."""
    for one in reversed(OPTIONS):
        command = one(command)
    return command


def settings_of(
    *,
    runtime: str,
    gpus: str,
    stop_grace: int,
    compile_cache_size: int,
    file_system: tuple[str, ...],
    **same: Any,
) -> Settings:
    """Raises SettingsError. `same`: what is called the same there."""
    return Settings(
        runtime=RuntimeChoice(runtime),
        gpus=GpuPolicy(gpus),
        stop_grace_seconds=stop_grace,
        compile_cache_bytes=compile_cache_size,
        file_systems=_by_id(file_system),
        **same,
    )


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

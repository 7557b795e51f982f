"""The settings of a server as options of `sagelet up`."""

import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from sagelet_api.cli.options import data_option
from sagelet_api.cli.quantities import Age, Size
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.settings import (
    GpuPolicy,
    RuntimeChoice,
    Settings,
    SlurmFiles,
    SlurmSize,
    SlurmTask,
    default_max_jobs,
)

F = TypeVar("F", bound=Callable[..., Any])


def option(name: str, **attributes: Any) -> Callable[[F], F]:
    """Makes an option that is also an environment variable SAGELET_*."""
    variable = f"SAGELET_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, **{"envvar": variable, "show_envvar": True, "show_default": True, **attributes})


def choices(values: type[Enum]) -> click.Choice[str]:
    return click.Choice([value.value for value in values])


class FileSystem(click.types.StringParamType):
    """Parses `fs-0123456789abcdef0=/directory`. A variable separates several like PATH."""

    name = "ID=DIRECTORY"
    envvar_list_splitter = os.pathsep


class HostName(click.types.StringParamType):
    """Parses `sagelet`. A variable separates several with commas."""

    name = "NAME"

    def split_envvar_value(self, rv: str) -> list[str]:
        return [name.strip() for name in rv.split(",") if name.strip()]


class HubUrl(click.types.StringParamType):
    """Takes the URL of a Hugging Face Hub: http or https, a host, perhaps a path."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(super().convert(value, param, ctx)).rstrip("/")
        try:
            parts = urlsplit(text)
            sound = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        except ValueError:
            sound = False
        if not sound or "@" in parts.netloc or parts.query or parts.fragment or not text.isprintable():
            self.fail(f"{text!r} is not the URL of a Hub, such as https://huggingface.co", param, ctx)
        return text


OPTIONS = (
    option("--host", default="127.0.0.1", help="Address to listen on."),
    option("--port", default=4599, type=int, help="Port to listen on; 0 takes a free one."),
    option(
        "--allow-host",
        multiple=True,
        type=HostName(),
        help="A host name besides localhost by which clients call this server; may be given several times.",
    ),
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
    option("--max-hosts", type=int, default=None, help="Hosts of all jobs at the same time; no job may have more."),
    option("--stop-grace", default=120, type=int, help="Seconds between SIGTERM and SIGKILL of a stopped job."),
    option("--spot-discount", default=0.7, type=float, help="Share of its time that a spot job is not billed for."),
    option(
        "--enforce-iam", is_flag=True, help="Refuse a job if its RoleArn is not in IAM or SageMaker may not assume it."
    ),
    option("--stubs", is_flag=True, help="Record transform jobs, endpoints and the like, although nothing runs."),
    option(
        "--compile-cache-size",
        default="5G",
        type=Size(),
        help="Disk for compiled programs kept from job to job; 0: none.",
    ),
    option("--keep-files", default="30d", type=Age(), help="How long files of ended jobs (/opt/ml) stay at most."),
    option(
        "--keep-files-size",
        default="20G",
        type=Size(),
        help="Disk for files of ended jobs. The newest job's files always stay.",
    ),
    option("--keep-jobs", default="forever", type=Age(), help="How long ended jobs stay, with their logs and metrics."),
    option("--auth", is_flag=True, help="Accept only calls signed with the key pair in DATA/credentials."),
    option("--tls", is_flag=True, help="HTTPS, with sagelet's certificate: set AWS_CA_BUNDLE to DATA/tls/ca.pem."),
    option("--no-hub", is_flag=True, help="Jobs use the real Hugging Face Hub instead of `sagelet hub`."),
    option(
        "--hub-upstream",
        default="https://huggingface.co",
        type=HubUrl(),
        help="The Hugging Face Hub, or a mirror, for what `sagelet hub` does not have.",
    ),
    option("--offline", is_flag=True, help="Ask no Hugging Face Hub outside: what `sagelet hub` lacks is missing."),
    option("--image-rules", type=click.Path(dir_okay=False, path_type=Path), help="TOML file with your image rules."),
    option(
        "--writable-image",
        multiple=True,
        metavar="PATTERN",
        help="Local images (`lab/*`) whose containers may write to their root file system; may be given several times.",
    ),
    option(
        "--root-image",
        multiple=True,
        metavar="PATTERN",
        help="Local images (`lab/*`) that run as root where sagelet is root; others run as the user 65532.",
    ),
    option("--log-size", default="2G", type=Size(), help="What a container may print; a job that prints more ends."),
    option("--slurm-address", default=None, help="With --runtime slurm: the name by which nodes reach this server."),
    option(
        "--slurm-files",
        default="shared",
        type=choices(SlurmFiles),
        help="With --runtime slurm: nodes see the data directory at the same place, or get their files by S3.",
    ),
    option(
        "--slurm-task",
        default="process",
        type=choices(SlurmTask),
        help="With --runtime slurm: what nodes run, this Python or a container of the job's image.",
    ),
    option(
        "--slurm-size",
        default="instance",
        type=choices(SlurmSize),
        help="With --runtime slurm: ask for CPUs and memory of the instance type, as far as nodes have them, or not.",
    ),
    option(
        "--slurm-images",
        type=click.Path(file_okay=False, path_type=Path),
        help="With --slurm-task apptainer or enroot: the nodes' directory of image files.",
    ),
    option(
        "--slurm-rules",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With --runtime slurm: TOML file with your rules for partitions, accounts and QOS.",
    ),
    option(
        "--file-system",
        multiple=True,
        type=FileSystem(),
        help="A directory that stands in for an EFS or FSx for Lustre file system; may be given several times.",
    ),
)


def settings_options(command: F) -> F:
    """Adds all settings, as the keyword arguments of `settings_of`."""
    for one in reversed(OPTIONS):
        command = one(command)
    return command


def settings_of(
    *,
    allow_host: tuple[str, ...],
    runtime: str,
    gpus: str,
    stop_grace: int,
    compile_cache_size: int,
    slurm_files: str,
    slurm_task: str,
    slurm_size: str,
    keep_files: int | None,
    keep_files_size: int,
    keep_jobs: int | None,
    writable_image: tuple[str, ...],
    root_image: tuple[str, ...],
    log_size: int,
    no_hub: bool,
    hub_upstream: str,
    offline: bool,
    file_system: tuple[str, ...],
    **same: Any,
) -> Settings:
    """Returns the settings. `same` are those whose option has the same name. Raises SettingsError."""
    return Settings(
        allowed_hosts=allow_host,
        runtime=RuntimeChoice(runtime),
        gpus=GpuPolicy(gpus),
        stop_grace_seconds=stop_grace,
        compile_cache_bytes=compile_cache_size,
        slurm_files=SlurmFiles(slurm_files),
        slurm_task=SlurmTask(slurm_task),
        slurm_size=SlurmSize(slurm_size),
        keep_files_seconds=keep_files,
        keep_files_bytes=keep_files_size,
        keep_jobs_seconds=keep_jobs,
        writable_images=writable_image,
        root_images=root_image,
        log_bytes=log_size,
        hub=not no_hub,
        hub_upstream=hub_upstream,
        offline=offline,
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

"""The settings of one server. Each is an option of `sagelet up` and an environment variable SAGELET_*."""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from sagelet_engine.base.errors import SettingsError

#: Hosts that may run at the same time, unless max_jobs is larger.
DEFAULT_MAX_HOSTS = 8
#: On a cluster, the cluster decides.
CLUSTER_MAX_HOSTS = 10_000
DEFAULT_PORT = 4599
#: In bytes. A compiled training step for a GPU takes some megabytes.
DEFAULT_COMPILE_CACHE = 5 * 1024**3
#: Seconds, and bytes, for what ended jobs leave in their directories.
DEFAULT_KEEP_FILES = 30 * 86_400
DEFAULT_KEEP_FILES_SIZE = 20 * 1024**3
#: Bytes of a host's output. AWS sets no limit, and charges for it.
DEFAULT_LOG = 2 * 1024**3
LEAST_LOG = 1024**2
#: RFC 9110, 7.2: names in a Host header, except an address in brackets.
_HOST_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.IGNORECASE)
#: botocore shape FileSystemId.
_FILE_SYSTEM_ID = re.compile(r"fs-[0-9a-f]{8,18}")


class RuntimeChoice(str, Enum):
    AUTO = "auto"
    DOCKER = "docker"
    PROCESS = "process"
    SLURM = "slurm"


class SlurmFiles(str, Enum):
    """How the nodes of a cluster get the files of their jobs."""

    #: They see the data directory at the same path.
    SHARED = "shared"
    #: Through the endpoint's S3.
    S3 = "s3"


class SlurmSize(str, Enum):
    """How many CPUs and how much memory a job asks a cluster for."""

    #: The values of its instance type, up to what a node has.
    INSTANCE = "instance"
    #: What the rules say, otherwise the cluster's default.
    NONE = "none"


class SlurmTask(str, Enum):
    """What a node of a cluster runs for a host."""

    #: The Python that runs sagelet.
    PROCESS = "process"
    #: The job's image, with the node's Docker Engine.
    DOCKER = "docker"
    #: The job's image, from a file of `slurm/images.py`.
    APPTAINER = "apptainer"
    ENROOT = "enroot"


class GpuPolicy(str, Enum):
    """What a job of a GPU instance type gets."""

    #: Real GPUs if the host has enough. Otherwise CPU workers stand in, and the job says so.
    AUTO = "auto"
    #: Real GPUs or a CapacityError.
    REQUIRE = "require"
    #: Always CPU workers.
    OFF = "off"


def default_data_directory() -> Path:
    """Returns the default data directory. Raises SettingsError if there is no home directory."""
    configured = Path(os.environ.get("XDG_DATA_HOME", ""))
    if configured.is_absolute():
        return configured / "sagelet"
    try:
        return Path.home() / ".local" / "share" / "sagelet"
    except RuntimeError as error:
        raise SettingsError("--data: this user has no home directory; name a directory (SAGELET_DATA)") from error


def default_max_jobs() -> int:
    return max(2, (os.cpu_count() or 2) // 2)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_host(host: str) -> None:
    """Raises SettingsError for an empty name, and for parts that no name has: empty, or of more than 63 characters."""
    try:
        is_name = bool(host.encode("idna"))
    except UnicodeError:
        is_name = False
    if not is_name:
        raise SettingsError(f"--host {host}: must be an address or a host name (SAGELET_HOST)")


def _check_host_name(name: str) -> None:
    """Raises SettingsError if it is not a host name: a URL, a port, a pattern, the address of all interfaces."""
    try:
        known = not ipaddress.ip_address(name).is_unspecified
    except ValueError:
        known = _HOST_NAME.fullmatch(name) is not None
    if not known:
        raise SettingsError(
            f"--allow-host {name}: must be a host name or an address, without http:// and without a port "
            "(SAGELET_ALLOW_HOST, several with commas between them)"
        )


@dataclass(frozen=True)
class Settings:
    """The settings of a server. Raises SettingsError for a wrong one, and names the setting."""

    data: Path = field(default_factory=default_data_directory)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    #: Names and addresses besides localhost's that clients may put into Host, such as a service's name in a compose
    #: file.
    allowed_hosts: tuple[str, ...] = ()
    runtime: RuntimeChoice = RuntimeChoice.AUTO
    gpus: GpuPolicy = GpuPolicy.AUTO
    #: Jobs that run at the same time. The others wait for capacity.
    max_jobs: int = field(default_factory=default_max_jobs)
    #: Hosts of all jobs at the same time, and so the most hosts of one job. None: 8, or max_jobs if that is more.
    max_hosts: int | None = None
    #: Seconds between SIGTERM and SIGKILL when a job is stopped. AWS gives 120.
    stop_grace_seconds: int = 120
    #: Share of the running time that managed spot training does not bill. AWS says up to 0.9.
    spot_discount: float = 0.7
    #: True if a job's RoleArn must be a role in IAM that SageMaker may assume.
    enforce_iam: bool = False
    #: True if SageMaker's operations that would compute something other than a training job succeed and do nothing.
    stubs: bool = False
    #: Bytes of compiled programs that are kept from job to job. 0: none are kept.
    compile_cache_bytes: int = DEFAULT_COMPILE_CACHE
    #: What is kept of ended jobs. None for no limit. See retention/gc.py.
    keep_files_seconds: int | None = DEFAULT_KEEP_FILES
    keep_files_bytes: int | None = DEFAULT_KEEP_FILES_SIZE
    keep_jobs_seconds: int | None = None
    #: True if signatures are checked against the data directory's key pair, on loopback, too.
    auth: bool = False
    #: True for HTTPS, with a certificate that is made in the data directory.
    tls: bool = False
    #: True if jobs find the data directory's hub in HF_ENDPOINT.
    hub: bool = True
    #: The real Hub, which is asked for what that hub does not have.
    hub_upstream: str = "https://huggingface.co"
    #: True if no host outside is asked.
    offline: bool = False
    #: TOML file with the user's own image rules, which come before sagelet's.
    image_rules: Path | None = None
    #: The name or address at which the nodes of a Slurm cluster reach this server. None: `host`.
    slurm_address: str | None = None
    slurm_files: SlurmFiles = SlurmFiles.SHARED
    slurm_task: SlurmTask = SlurmTask.PROCESS
    slurm_size: SlurmSize = SlurmSize.INSTANCE
    #: Patterns of local images whose containers keep a writable root file system, and of images that run as root if the
    #: server is root. See runtimes/node/confinement.py.
    writable_images: tuple[str, ...] = ()
    root_images: tuple[str, ...] = ()
    #: Bytes that a container may print. A job that prints more is ended.
    log_bytes: int = DEFAULT_LOG
    #: A directory of the nodes with the images' files.
    slurm_images: Path | None = None
    #: TOML file that says which jobs go to which partition, account and QOS.
    slurm_rules: Path | None = None
    #: Directories that stand in for file systems (EFS, FSx for Lustre), by FileSystemId.
    file_systems: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"--port {self.port}: must be between 0 and 65535")
        _check_host(self.host)
        for name in self.allowed_hosts:
            _check_host_name(name)
        if self.max_jobs < 1:
            raise SettingsError(f"--max-jobs {self.max_jobs}: must be at least 1")
        if self.max_hosts is not None and self.max_hosts < 1:
            raise SettingsError(f"--max-hosts {self.max_hosts}: must be at least 1")
        if self.stop_grace_seconds < 0:
            raise SettingsError(f"--stop-grace {self.stop_grace_seconds}: must not be negative")
        if not 0 <= self.spot_discount < 1:
            raise SettingsError(f"--spot-discount {self.spot_discount}: must be at least 0 and less than 1")
        if self.compile_cache_bytes < 0:
            raise SettingsError(f"--compile-cache-size {self.compile_cache_bytes}: must not be negative")
        if self.log_bytes < LEAST_LOG:
            raise SettingsError(f"--log-size {self.log_bytes}: must be at least 1M")
        if self.image_rules is not None and not self.image_rules.is_file():
            raise SettingsError(f"--image-rules {self.image_rules}: no such file")
        needs_images = self.slurm_task in (SlurmTask.APPTAINER, SlurmTask.ENROOT)
        if needs_images and (self.slurm_images is None or not self.slurm_images.is_absolute()):
            raise SettingsError(
                f"--slurm-task {self.slurm_task.value}: say with --slurm-images in which directory, of the nodes, "
                "the images' files are; its path must be absolute"
            )
        if not self.auth and not is_loopback(self.host):
            raise SettingsError(
                f"--host {self.host}: anybody who reaches this address could run code on this machine; "
                "add --auth, which lets in holders of the key pair only (and --tls, which hides what they send)"
            )
        _check_file_systems(self.file_systems, self.data)

    @property
    def host_limit(self) -> int:
        """Returns the most hosts; see max_hosts. A cluster itself knows how many hosts it has."""
        if self.max_hosts is None and self.runtime is RuntimeChoice.SLURM:
            return CLUSTER_MAX_HOSTS
        return max(DEFAULT_MAX_HOSTS, self.max_jobs) if self.max_hosts is None else self.max_hosts


def _check_file_systems(file_systems: Mapping[str, Path], data: Path) -> None:
    """Raises SettingsError for a directory that cannot stand in, or that would give jobs sagelet's own files."""
    for identifier, directory in file_systems.items():
        named = f"--file-system {identifier}={directory}"
        if not _FILE_SYSTEM_ID.fullmatch(identifier):
            raise SettingsError(f"{named}: a file system's id is fs- and 8 to 18 of 0-9, a-f")
        if not directory.is_absolute() or not directory.is_dir():
            raise SettingsError(f"{named}: must be a directory that exists, by its absolute path")
        ours, theirs = data.resolve(), directory.resolve()
        if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
            raise SettingsError(f"{named}: holds or lies in --data {data}; jobs must not see sagelet's own files")

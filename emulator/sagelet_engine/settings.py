"""The settings of one server. Each is an option of `sagelet up` and an environment variable SAGELET_*."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from sagelet_engine.data.file_systems import check_file_systems
from sagelet_engine.errors import SettingsError

#: Hosts at the same time, unless more jobs than that may run.
DEFAULT_MAX_HOSTS = 8
DEFAULT_PORT = 4599
#: Bytes; a compiled training step for a GPU is some megabytes.
DEFAULT_COMPILE_CACHE = 5 * 1024**3


class RuntimeChoice(str, Enum):
    AUTO = "auto"
    DOCKER = "docker"
    PROCESS = "process"


class GpuPolicy(str, Enum):
    """What a job of a GPU instance type gets."""

    #: Real GPUs where the host has enough, otherwise CPU workers that stand in, and the job says so.
    AUTO = "auto"
    #: Real GPUs or a CapacityError.
    REQUIRE = "require"
    #: Always CPU workers.
    OFF = "off"


def default_data_directory() -> Path:
    """Raises SettingsError when there is no home directory."""
    configured = Path(os.environ.get("XDG_DATA_HOME", ""))
    if configured.is_absolute():
        return configured / "sagelet"
    try:
        return Path.home() / ".local" / "share" / "sagelet"
    except RuntimeError as error:
        raise SettingsError("--data: this user has no home directory; name a directory (SAGELET_DATA)") from error


def default_max_jobs() -> int:
    return max(2, (os.cpu_count() or 2) // 2)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Settings:
    """Raises SettingsError, naming the setting, when one is wrong."""

    data: Path = field(default_factory=default_data_directory)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    runtime: RuntimeChoice = RuntimeChoice.AUTO
    gpus: GpuPolicy = GpuPolicy.AUTO
    #: Jobs that run at the same time; the others wait for capacity.
    max_jobs: int = field(default_factory=default_max_jobs)
    #: Hosts of all jobs at the same time, and so the most that one job can have. None: 8, or max_jobs if that is more.
    max_hosts: int | None = None
    #: Seconds between SIGTERM and SIGKILL when a job is stopped; AWS gives 120.
    stop_grace_seconds: int = 120
    #: Share of the running time that managed spot training does not bill; AWS says up to 0.9.
    spot_discount: float = 0.7
    #: A job's RoleArn must be a role in IAM that SageMaker may assume.
    enforce_iam: bool = False
    #: SageMaker's operations that would compute something other than a training job succeed and do nothing.
    stubs: bool = False
    #: Bytes of compiled programs that are kept from job to job; 0: none are.
    compile_cache_bytes: int = DEFAULT_COMPILE_CACHE
    #: Signatures are checked against the data directory's key pair, not only asked for.
    auth: bool = False
    #: HTTPS, with a certificate that is made in the data directory.
    tls: bool = False
    #: TOML file with the user's own image rules; theirs come first.
    image_rules: Path | None = None
    #: Directories that stand in for file systems (EFS, FSx for Lustre), by FileSystemId.
    file_systems: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"--port {self.port}: must be between 0 and 65535")
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
        if self.image_rules is not None and not self.image_rules.is_file():
            raise SettingsError(f"--image-rules {self.image_rules}: no such file")
        if not self.auth and not _is_loopback(self.host):
            raise SettingsError(
                f"--host {self.host}: whoever reaches this address could run code on this machine; "
                "add --auth, which lets in holders of the key pair only (and --tls, which hides what they send)"
            )
        check_file_systems(self.file_systems, self.data)

    @property
    def host_limit(self) -> int:
        """See max_hosts."""
        return max(DEFAULT_MAX_HOSTS, self.max_jobs) if self.max_hosts is None else self.max_hosts

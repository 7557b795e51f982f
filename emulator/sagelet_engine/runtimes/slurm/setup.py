"""Sets up the slurm runtime of a server. Checks what it needs at the server's start, before any job waits for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import RuntimeUnavailable, SettingsError
from sagelet_engine.model.cluster import Refused
from sagelet_engine.runtimes.node.confinement import Exceptions
from sagelet_engine.runtimes.process.runtime import StandIn
from sagelet_engine.runtimes.slurm.address import check_address
from sagelet_engine.runtimes.slurm.commands import Slurm
from sagelet_engine.runtimes.slurm.data import check_shared
from sagelet_engine.runtimes.slurm.queue import SlurmQueue
from sagelet_engine.runtimes.slurm.remote_files import MakeRemoteFiles
from sagelet_engine.runtimes.slurm.rules import SlurmRules, read_rules
from sagelet_engine.runtimes.slurm.runtime import SlurmRuntime
from sagelet_engine.runtimes.slurm.task import ContainerTask, Engine, ProcessTask, Task
from sagelet_engine.settings import Settings, SlurmFiles, SlurmSize, SlurmTask

#: Seconds that squeue must keep ended jobs (MinJobAge), unless Slurm has accounts. A server that is down for longer
#: asks sacct.
MEMORY_S = 60


@dataclass(frozen=True)
class SlurmSetup:
    runtime: SlurmRuntime
    #: A text for people that says which Slurm this is.
    reason: str
    listen: tuple[str, ...]


def set_up(settings: Settings, owner: str, stand_in: StandIn, clock: Clock) -> SlurmSetup:
    """Returns the runtime. `owner`: the data directory's id.

    Raises SettingsError with the remedy.
    """
    address = check_address(settings.slurm_address, settings.host, auth=settings.auth, tls=settings.tls)
    rules = read_rules(settings.slurm_rules) if settings.slurm_rules is not None else SlurmRules()
    slurm = Slurm()
    known = _configuration(slurm)
    memory = _seconds(known.get("MinJobAge", ""))
    if memory < MEMORY_S and not slurm.keeps_accounts():
        raise SettingsError(
            f"--runtime slurm: Slurm forgets a job {memory} s after its end, and this machine can read no accounts of "
            f"it; set MinJobAge to {MEMORY_S} or more in slurm.conf, run slurmdbd, or set JobCompType=jobcomp/filetxt"
        )
    python = stand_in.command[0]
    shared = settings.slurm_files is SlurmFiles.SHARED
    seen = check_shared(settings.data, slurm.node_hosts()) if shared else ""
    task = _task(settings, owner, stand_in, known)
    queue = SlurmQueue(
        slurm,
        settings.data / "runtime" / "slurm",
        owner,
        python,
        rules,
        None if shared else _remote_files(settings.data),
        task.afterwards,
        sized=settings.slurm_size is SlurmSize.INSTANCE,
    )
    runtime = SlurmRuntime(settings.data / "runtime", queue, task, clock, address.name)
    version, name = known.get("SLURM_VERSION", "of some version"), known.get("ClusterName", "without a name")
    return SlurmSetup(runtime, f"Slurm {version}, cluster {name}{_notes(settings, stand_in)}{seen}", address.listen)


def _remote_files(data: Path) -> MakeRemoteFiles:
    """The only import of the folder, so that an installation without it lacks nothing but this."""
    try:
        from sagelet_engine.runtimes.slurm.file_sync.staging import remote_files
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"--slurm-files s3: this installation has no file sync ({error.name}); put --data where the nodes see it, "
            "at the same path, or install all of sagelet"
        ) from error
    return partial(remote_files, data)


def _task(settings: Settings, owner: str, stand_in: StandIn, known: Mapping[str, str]) -> Task:
    if settings.slurm_task is SlurmTask.PROCESS:
        return ProcessTask(stand_in)
    engine: Engine = settings.slurm_task.value
    kill_wait = _seconds(known.get("KillWait", ""))
    exceptions = Exceptions(settings.writable_images, settings.root_images)
    return ContainerTask(engine, owner, stand_in.command[0], kill_wait, settings.slurm_images, exceptions)


def _notes(settings: Settings, stand_in: StandIn) -> str:
    if settings.slurm_task is not SlurmTask.PROCESS:
        return f", tasks by {settings.slurm_task.value}"
    return f"; {', '.join(stand_in.missing)} not installed: `sagelet install-torch`" if stand_in.missing else ""


def _seconds(told: str) -> int:
    """Returns the seconds of a text such as `30 sec`."""
    word = told.partition(" ")[0]
    return int(word) if word.isascii() and word.isdigit() else 0


def _configuration(slurm: Slurm) -> dict[str, str]:
    try:
        return slurm.settings()
    except RuntimeUnavailable as error:
        raise SettingsError(
            f"--runtime slurm: the controller does not answer ({error}). Is slurmctld up, and SLURM_CONF right?"
        ) from error
    except Refused as error:
        raise SettingsError(f"--runtime slurm: {error}. This machine has to be a client of the cluster") from error

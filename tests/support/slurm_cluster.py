"""A Slurm cluster on this machine only: munged, slurmctld and a slurmd for each node, all in one directory.

The nodes have names, ports and loopback addresses of their own, so jobs of several nodes are real. It only needs
Debian's packages `slurmctld slurmd slurm-client munge`. It does not read or change the machine's own Slurm, if any.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path

from sagelet_engine.runtimes.node import host_files
from support.harness import wait_for
from support.ports import HeldPort

PROGRAMS = ("munged", "slurmctld", "slurmd", "squeue")
#: Debian's directory of the daemons, which is not on an ordinary user's PATH.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
#: Seconds until the controller takes a silent node for down.
NODE_TIMEOUT = 6

CONF = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0,default_queue_depth=5000
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
SlurmdTimeout={node_timeout}
KillWait=10
MinJobAge=3600
UnkillableStepTimeout=10
BatchStartTimeout=60
MessageTimeout=30
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
EnforcePartLimits=ALL
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=other Nodes=ALL State=UP PriorityTier=1 GraceTime=20
PartitionName=tiny Nodes=n1 State=UP MaxNodes=1
{extra}
"""


class SlurmCluster:
    """`nodes` machines of one CPU each, n1, n2, ..., so each runs one job at a time."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 2,
        extra: str = "",
        node_options: str = "CPUs=1",
        private: Path | None = None,
    ) -> None:
        """`private`: a directory in whose place each node has an empty one of its own."""
        self._directory = directory
        self.nodes = tuple(f"n{number}" for number in range(1, nodes + 1))
        self._extra = extra
        self._node_options = node_options
        self._private = private
        #: What the clients, sagelet among them, need in their environment.
        self.environment: dict[str, str] = {"SLURM_CONF": str(directory / "slurm.conf"), "PATH": PATH}

    def start(self) -> "SlurmCluster":
        self._write()
        self._start_munged()
        self.start_controller()
        for name in self.nodes:
            self.start_node(name)
        wait_for("the nodes of the cluster", lambda: self.node_states() == ["idle"] * len(self.nodes))
        return self

    def stop(self) -> None:
        """Ends everything, jobs first."""
        self.clear()
        for name in self.nodes:
            self._end(f"{name}.pid")
        self._end("slurmctld.pid")
        self._end("munge/pid")

    def run(self, *command: str, check: bool = True) -> str:
        """Runs one of Slurm's commands. Returns its output."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def node_states(self) -> list[str]:
        return self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T", check=False).split()

    def number(self, name: str) -> str:
        """Returns the number of Slurm's newest job of this name."""
        said = self.run("squeue", "--noheader", "--states=all", "--sort=-i", f"--name={name}", "--Format=JobID")
        return said.split()[0]

    def starts(self) -> dict[str, int]:
        """Returns when each job got its nodes, by job name, in seconds since the epoch."""
        said = self.run("squeue", "--noheader", "--states=all", "--Format=Name:|,StartTime:|")
        fields = (line.split("|") for line in said.splitlines())
        return {name: int(datetime.fromisoformat(start).timestamp()) for name, start, _ in fields if start[0].isdigit()}

    def clear(self) -> None:
        """Cancels every job, and waits until the nodes are free."""
        self.run("scancel", "--state=PENDING", "--me", check=False)
        self.run("scancel", "--me", check=False)
        wait_for("the end of all jobs", lambda: self.run("squeue", "-h", check=False).strip() == "")

    def heal(self) -> None:
        """Brings every node up again and waits until it is idle."""
        self.start_controller()
        for name in self.nodes:
            if not host_files.start_time(self._pid(name)):
                self.start_node(name)
            self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        wait_for("the nodes of the cluster", lambda: self.node_states() == ["idle"] * len(self.nodes))

    def _pid(self, name: str) -> int:
        return int((self._directory / f"{name}.pid").read_text())

    def update(self, *words: str) -> None:
        """Runs `scontrol update`, which drains a node or changes a job."""
        self.run("scontrol", "update", *words)

    def start_controller(self) -> None:
        """Starts the controller if it does not run already."""
        if "UP" not in self.run("scontrol", "ping", check=False):
            self._launch("slurmctld")
        wait_for("an answer of the controller", lambda: "UP" in self.run("scontrol", "ping", check=False))

    def stop_controller(self) -> None:
        self._end("slurmctld.pid")

    def start_node(self, name: str) -> None:
        if self._private is None:
            self._launch("slurmd", "-N", name)
            return
        found = shutil.which("slurmd", path=PATH)
        hidden = f"mount -t tmpfs none {self._private} && exec {found} -N {name}"
        self._launch("unshare", "--mount", "sh", "-c", hidden)

    def kill_node(self, name: str) -> None:
        """Kills the daemon and all processes that it ran at once, as a power failure does."""
        root = self._pid(name)
        tasks = [pid for pid in _pids() if self._is_task_of(pid, name)]
        # The shims of Slurm's own do not have their node in their environment, but what they started has.
        keepers = {parent for pid in tasks if "slurmstepd" in _read(parent := _parent(pid), "comm")}
        for pid in [root, *keepers, *tasks]:
            host_files.kill(pid)

    def _is_task_of(self, pid: int, node: str) -> bool:
        has = _read(pid, "environ").split("\0")
        return f"SLURMD_NODENAME={node}" in has and f"SLURM_CONF={self.environment['SLURM_CONF']}" in has

    def _write(self) -> None:
        for name in ("munge", "state"):
            (self._directory / name).mkdir(parents=True, mode=0o700)
        key = self._directory / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self._ports = [HeldPort() for _ in range(len(self.nodes) + 1)]
        ports = [held.number for held in self._ports]
        # Other clusters on this machine have other addresses.
        network = f"127.{secrets.randbelow(200) + 30}.{secrets.randbelow(250) + 1}"
        lines = [
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr={network}.{number} Port={ports[number]} "
            f"RealMemory=4000 {self._node_options}"
            for number, name in enumerate(self.nodes, 1)
        ]
        (self._directory / "slurm.conf").write_text(
            CONF.format(
                name=f"sagelet{secrets.token_hex(3)}",
                host=socket.gethostname(),
                port=ports[0],
                user=_user(),
                directory=self._directory,
                node_timeout=NODE_TIMEOUT,
                nodes="\n".join(lines),
                extra=self._extra,
            )
        )
        # Without this file the daemons would look for one in /etc/slurm, and warn.
        (self._directory / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")

    def _start_munged(self) -> None:
        at = self._directory / "munge"
        self._launch(
            "munged", "--force", f"--socket={at}/socket", f"--key-file={at}/key", f"--pid-file={at}/pid",
            f"--log-file={at}/log", f"--seed-file={at}/seed", "--num-threads=2",
        )  # fmt: skip

    def _launch(self, program: str, *arguments: str) -> None:
        """Starts a daemon, which goes into the background by itself."""
        found = shutil.which(program, path=PATH)
        assert found is not None, f"{program} is not installed"
        with (self._directory / f"{program}.out").open("ab") as out:
            subprocess.run(
                [found, *arguments], env={**os.environ, **self.environment}, cwd=self._directory,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=True, timeout=60,
            )  # fmt: skip

    def _end(self, pid_file: str) -> None:
        file = self._directory / pid_file
        if not file.exists():
            return
        pid = int(file.read_text())
        begun = host_files.start_time(pid)
        if not begun:
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while host_files.start_time(pid) == begun:
            if time.monotonic() > deadline:
                host_files.kill(pid)
            time.sleep(0.02)


def missing_slurm() -> str | None:
    """Returns why no cluster can be started here, or None if one can."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if not absent:
        return None
    return f"{', '.join(absent)} not installed: apt-get install slurmctld slurmd slurm-client munge"


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, name: str) -> str:
    try:
        return Path("/proc", str(pid), name).read_text(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    return next((int(line.split()[1]) for line in _read(pid, "status").splitlines() if line.startswith("PPid:")), 0)

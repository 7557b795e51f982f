"""Shims of `--slurm-task apptainer` and `enroot`, with stand-ins for the two programs and without a cluster."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_engine.base import json_files
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model.runtime import HostPlan, LaunchPlan, Mount
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.runtimes.slurm import files as slurm_files
from sagelet_engine.runtimes.slurm.script import SHIM
from sagelet_engine.runtimes.slurm.task import ContainerTask, Engine
from support import container_programs
from support.harness import wait_for

pytestmark = pytest.mark.slurm

PROGRAMS: tuple[Engine, ...] = ("apptainer", "enroot")
IMAGE = "lab/bert:2"


class Node:
    """The second node of an allocation, as its shim finds it."""

    def __init__(self, directory: Path, engine: Engine) -> None:
        self._directory = directory
        self._engine = engine
        self.images = directory / "images"
        self.images.mkdir()
        suffix = {"apptainer": "sif", "enroot": "sqsh"}[engine]
        (self.images / f"lab+bert+2.{suffix}").touch()
        container_programs.install(directory / "bin", sys.executable)
        self.task = ContainerTask(engine, "owner", sys.executable, 30, self.images)
        self.opt_ml = directory / "a job, with a comma" / "opt-ml" if engine == "apptainer" else directory / "opt-ml"
        (self.opt_ml / "input").mkdir(parents=True)
        (self.opt_ml / "mounted").mkdir()
        self.run_dir = directory / "run"
        self.run_dir.mkdir()

    def shim(self, *script: str, **changes: object) -> "subprocess.Popen[bytes]":
        """Of a host that runs a script of sh, or other arguments."""
        directory = self._directory / "allocation"
        directory.mkdir()
        (directory / slurm_files.NODES).write_text("n1\nn2\n")
        (directory / slurm_files.ADDRESSES).write_text("n1 127.9.0.1\nn2 127.9.0.2\n")
        run_dirs = [str(self._directory), str(self.run_dir)]
        json_files.write_json(directory / slurm_files.GO, {"hosts": ["algo-1", "algo-2"], "run_dirs": run_dirs})
        mounts = (Mount(self.images, "mounted", read_only=True),)
        host = HostPlan("algo-2", self.opt_ml, self.run_dir, read_only=("input",), mounts=mounts)
        plan = LaunchPlan(
            **{"job_id": "j", "job_name": "j", "image": IMAGE, "hosts": (host,), "entrypoint": ("/bin/sh", "-c"),
               "arguments": script, **changes}
        )  # fmt: skip
        json_files.write_json(self.run_dir / host_files.PLAN, self.task.content(plan, host, 7777))
        (self.run_dir / slurm_files.CONTROL).touch()
        path = f"{self._directory / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "SLURM_NODEID": "1", "SLURM_JOB_ID": "5", "SLURMD_NODENAME": "n2", "SECRET": "x"}
        return subprocess.Popen([sys.executable, "-I", "-S", str(SHIM), str(directory)], env=environment)

    def output(self) -> list[str]:
        file = self.run_dir / host_files.OUTPUT
        return file.read_text().splitlines() if file.exists() else []

    def end(self, shim: "subprocess.Popen[bytes]") -> dict[str, object]:
        shim.wait(120)
        ended: dict[str, object] = json.loads((self.run_dir / host_files.EXIT).read_text())
        return ended


@pytest.fixture(params=PROGRAMS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(tmp_path, request.param)


def test_the_container_has_the_jobs_directory_hosts_environment_and_nothing_else(node: Node) -> None:
    script = (
        'grep -c algo- /etc/hosts; grep algo-2 /etc/hosts; echo "$WORDS|$SECRET|$SAGELET_MASTER_PORT|$1"; '
        "touch /opt/ml/input/x 2>/dev/null || echo read-only; ls /opt/ml/mounted; ls /opt; pwd; "
        "touch /opt/ml/made; exit 9"
    )
    end = node.end(node.shim(script, "sh", "an argument", environment={"WORDS": '"two" $words\''}))
    assert end["exit_code"] == 9
    image = next(node.images.iterdir()).name
    assert node.output() == ["2", "127.9.0.2 algo-2", '"two" $words\'||7777|an argument', "read-only", image, "ml", "/"]
    assert (node.opt_ml / "made").exists()
    # Its environment has the job's keys.
    assert sorted(path.name for path in node.run_dir.iterdir()) == [
        "control", "exit.json", "hosts", "output.log", "plan.json", "started.json"
    ]  # fmt: skip


def test_without_an_entry_point_the_images_own_gets_the_arguments(node: Node) -> None:
    end = node.end(node.shim("train", entrypoint=None))
    assert end["exit_code"] == 0
    assert node.output() in (["runscript train"], ["rc train"])


def test_a_stop_reaches_the_script_and_a_second_one_its_processes(node: Node) -> None:
    shim = node.shim("trap 'echo saved' TERM; echo ready; while :; do sleep 0.1; done")
    wait_for("the script", lambda: node.output() == ["ready"])
    with (node.run_dir / slurm_files.CONTROL).open("a") as control:
        control.write(slurm_files.TERMINATE)
    wait_for("its handler", lambda: node.output() == ["ready", "saved"])
    with (node.run_dir / slurm_files.CONTROL).open("a") as control:
        control.write(slurm_files.KILL)
    end = node.end(shim)
    assert (end["exit_code"], end["heard"]) == (128 + signal.SIGKILL, "TK")


def test_an_image_that_is_not_there_is_named_with_the_remedy(node: Node) -> None:
    end = node.end(node.shim("true", image="lab/none:1"))
    assert end["refused"]
    assert f"n2 has no {node.images}/lab+none+1.s" in str(end["error"])
    assert "lab/none:1`" in str(end["error"])
    assert node.task.has_image(IMAGE)
    with pytest.raises(ClientFault, match="lab/none:1`"):
        node.task.has_image("lab/none:1")


def test_enroot_takes_no_lines(tmp_path: Path) -> None:
    node = Node(tmp_path, "enroot")
    end = node.end(node.shim("true", environment={"KEY": "two\nlines"}))
    assert (end["refused"], end["error"]) == (True, "enroot: KEY of the Environment has several lines")

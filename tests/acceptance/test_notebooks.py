"""examples/notebooks, run by nbclient under `sagelet run`: two jobs each, their pictures; nothing leaves the machine.

`SAGELET_RECORD=1` (`make notebooks`) writes them back with their outputs.
"""

import base64
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.iam import execution_role
from support.clients import ENVIRONMENT, ROOT, RunClients
from support.hub import left_for_others
from support.jobs import Jobs
from support.notebooks import Notebook
from support.proxy import RecordingProxy
from support.server import ACCOUNT, SageletProcess
from support.walks import Terminal, Walk

pytestmark = pytest.mark.sdk

EXAMPLES = ROOT / "examples" / "notebooks"
RUNNER = Path(__file__).parent / "clients" / "notebook.py"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/service-role/{execution_role.NAME}"
PROCESS = pytest.mark.parametrize("server", [pytest.param("process", marks=pytest.mark.xla)], indirect=True)
#: pip would ask whether there is a newer pip.
OFFLINE = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
DOCKER = pytest.mark.parametrize("server", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of the notebooks' directory."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "notebooks"))


@pytest.fixture
def executed(
    server: SageletProcess, directory: Path, tmp_path: Path, proxy: RecordingProxy
) -> Callable[[str], Notebook]:
    """Runs a notebook as `sagelet run --hub -- jupyter lab` does, and Run All."""

    def run(name: str) -> Notebook:
        written = tmp_path / "written.ipynb"
        # As a user has it who installed sagelet beside the SDK.
        sagelet = {"PYTHONPATH": os.pathsep.join(str(ROOT / source) for source in ("api", "emulator"))}
        sagelet["HF_HOME"] = str(tmp_path / "cache")
        clients = RunClients(server, directory, ENVIRONMENT, {**proxy.environment, **sagelet, **OFFLINE}, "--hub")
        clients.run("python", str(RUNNER), f"{name}.ipynb", str(written), seconds=1200)
        if os.environ.get("SAGELET_RECORD") == "1":
            shutil.copy(written, EXAMPLES / f"{name}.ipynb")
        return Notebook(written)

    return run


@dataclass(frozen=True)
class Trained:
    """What a job's own metrics say of it."""

    job: dict[str, Any]
    log: list[str]
    metrics: dict[str, float]

    def printed(self, name: str) -> list[float]:
        """Values that the Trainer printed by this name, in their order."""
        return [float(found[1]) for line in self.log if (found := re.search(rf"'{name}': ([0-9.]+)", line))]

    @property
    def runtime(self) -> float:
        (value,) = self.printed("train_runtime")
        return value


def trained(jobs: Jobs, name: str) -> Trained:
    job = jobs.describe(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert job["RoleArn"] == ROLE
    return Trained(
        job, jobs.log(name, "algo-1"), {one["MetricName"]: one["Value"] for one in job["FinalMetricDataList"]}
    )


def check_environment(notebook: Notebook, proxy: RecordingProxy) -> None:
    printed = notebook.printed
    assert f"sagemaker role arn: {ROLE}\n" in printed
    assert f"sagemaker bucket: sagemaker-us-east-1-{ACCOUNT}\n" in printed
    assert "sagemaker session region: us-east-1\n" in printed
    assert left_for_others(proxy) == []


def check_training(one: Trained, device: str, batch: int, workers: int) -> None:
    assert any(line.endswith(f"device_type={device} batch={batch} workers={workers}") for line in one.log)
    losses = one.printed("loss")
    assert len(losses) == 20
    assert losses[-1] < losses[0]
    assert one.metrics["epoch"] == 20
    assert one.metrics["train_loss"] == pytest.approx(losses[-1])
    assert one.metrics["summary_train_runtime"] == pytest.approx(one.runtime) != 0


def check_pictures(notebook: Notebook, count: int) -> None:
    pictures = [base64.b64decode(picture) for picture in notebook.pictures]
    assert len(pictures) == len(set(pictures)) == count
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 5_000 for picture in pictures)


def check_comparison(html: str, native: Trained, compiled: Trained, *, batches_differ: bool = True) -> None:
    """The last cell: both jobs, and whether their batches differ."""
    for one in (native, compiled):
        assert one.job["TrainingJobName"] in html
    assert ("a step takes" in html) == batches_differ


@PROCESS
def test_the_blog_post(executed: Callable[[str], Notebook], jobs: Jobs, proxy: RecordingProxy) -> None:
    notebook = executed("gpt2-sst2")
    check_environment(notebook, proxy)
    native, compiled = (trained(jobs, name) for name in notebook.job_names)
    check_training(native, "cpu", batch=10, workers=2)
    check_training(compiled, "xla", batch=20, workers=2)
    for one in (native, compiled):
        assert any("1 CPU worker(s) for 1 GPU(s) of ml.g4dn.xlarge" in line for line in one.log)
    check_pictures(notebook, 4)
    (compared,) = notebook.tables
    check_comparison(compared, native, compiled)


@DOCKER
def test_the_multi_node_notebook(executed: Callable[[str], Notebook], jobs: Jobs, proxy: RecordingProxy) -> None:
    notebook = executed("gpt2-multi-node")
    check_environment(notebook, proxy)
    native, compiled = (trained(jobs, name) for name in notebook.job_names)
    check_training(native, "cpu", batch=13, workers=2)
    check_training(compiled, "xla", batch=25, workers=2)
    check_pictures(notebook, 2)
    runtimes = [one.runtime for one in (native, compiled)]
    faster = int((runtimes[0] - runtimes[1]) * 100 / runtimes[0])
    assert f"SageMaker Training Compiler is about {faster}% faster in terms of total training time." in notebook.printed
    billable = [one.job["BillableTimeInSeconds"] for one in (native, compiled)]
    faster = int((billable[0] - billable[1]) * 100 / billable[0])
    assert f"SageMaker Training Compiler integrated PyTorch was {faster}% faster in summary." in notebook.printed
    *frames, compared = notebook.tables
    check_comparison(compared, native, compiled)
    stats, bill = ([float(cell) for cell in re.findall(r"<td>([0-9.]+)</td>", table)] for table in frames)
    assert set(runtimes) <= set(stats)
    assert bill == billable


@PROCESS
def test_from_the_hub(
    executed: Callable[[str], Notebook], server: SageletProcess, jobs: Jobs, proxy: RecordingProxy, directory: Path
) -> None:
    """The commands of the notebooks' page, as printed; from `pip install` to the comparison.

    Nothing leaves the machine: neither of the notebook nor of its jobs.
    """
    walk = Walk("from the hub")
    programs = os.pathsep.join([str(server.program.parent), os.environ["PATH"]])
    terminal = Terminal(directory, {**os.environ, "PATH": programs, "SAGELET_DATA": str(server.data)})
    for beginning in ("sagelet hub make-tiny", "python make_sst2.py", "sagelet hub add"):
        terminal.run(walk.next(beginning))
    walk.next("sagelet run --hub -- jupyter")
    walk.end()
    notebook = executed("from-the-hub")
    check_environment(notebook, proxy)
    assert "256 64\n" in notebook.printed
    native, compiled = (trained(jobs, name) for name in notebook.job_names)
    for one in (native, compiled):
        assert "loaded train_dataset length is: 256" in one.log
        losses = one.printed("loss")
        assert len(losses) == 8
        assert losses[-1] < losses[0]
        assert 0.8 < one.metrics["eval_accuracy"] <= 1
    assert native.printed("loss") == pytest.approx(compiled.printed("loss"), rel=0.05, abs=1e-3)
    check_pictures(notebook, 2)
    (compared,) = notebook.tables
    check_comparison(compared, native, compiled, batches_differ=False)

"""The examples that are one command each, as their READMEs say, all at once. (Notebooks: test_notebooks.py.)"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.clients import ENVIRONMENT, ROOT, RunClients
from support.jobs import Jobs
from support.server import SageletProcess, until

pytestmark = [
    pytest.mark.sdk,
    pytest.mark.parametrize("server", [pytest.param("process", marks=pytest.mark.xla)], indirect=True),
]

#: Example -> arguments of its submit.py; those of several workers first.
COMMANDS = {
    "distributed": (),
    "launcher": (),
    "single_gpu": (),
    "hugging_face": (),
    "create_training_job": (),
    "best_practices": ("unreadable_checkpoint",),
    # One of its six training jobs. Its notebook makes four: test_tuning.py.
    "tuning": ("Random", "1"),
}
#: Needs no SageMaker SDK.
WITHOUT_SDK = "create_training_job"
LOSSES = ["0.64081511", "0.57266901", "0.52039547", "0.57323772"]


@dataclass(frozen=True)
class Ran:
    """What a submit.py printed, and its exit code."""

    code: int
    output: str

    @property
    def model(self) -> tuple[str, str, str]:
        """Returns bucket, job and key of model.tar.gz from the last line."""
        found = re.fullmatch(r"s3://([^/]+)/((?:output/)?([^/]+)/output/model\.tar\.gz)", self.output.split()[-1])
        assert found is not None, self.output[-2000:]
        return found[1], found[3], found[2]


@pytest.fixture(scope="module")
def ran() -> dict[str, Ran]:
    """Filled by the first test."""
    return {}


@pytest.fixture
def outputs(server: SageletProcess, ran: dict[str, Ran], tmp_path: Path) -> dict[str, Ran]:
    """All submit.py at once, so that the machine is never idle; each in its own directory, as a user runs it."""
    if not ran:
        processes = {name: start(server, tmp_path, name) for name in COMMANDS}
        try:
            until(lambda: all(process.poll() is not None for process in processes.values()), 900, every=0.5)
        finally:
            for name, process in processes.items():
                process.kill()
                ran[name] = Ran(process.wait(), (tmp_path / f"{name}.txt").read_text())
    return ran


def start(server: SageletProcess, directory: Path, name: str) -> "subprocess.Popen[bytes]":
    program = sys.executable if name == WITHOUT_SDK else ENVIRONMENT / "bin" / "python"
    clients = RunClients(server, ROOT / "examples" / name, ENVIRONMENT, {"SAGEMAKER_SUPPRESS_V2_WARNING": "1"})
    with (directory / f"{name}.txt").open("wb") as output:
        return clients.start([str(program), "submit.py", *COMMANDS[name]], output)


def check_log(ran: Ran) -> None:
    assert ran.code == 0, ran.output[-4000:]
    found = ran.output.index("Found configuration for Training Compiler")
    assert found < ran.output.index("Configuring SM Training Compiler...")
    assert "device: xla:0" in ran.output


def check_model(jobs: Jobs, ran: Ran, member: str) -> None:
    bucket, job, key = ran.model
    assert jobs.describe(job)["TrainingJobStatus"] == "Completed"
    prefix = key.removesuffix(f"{job}/output/model.tar.gz")
    assert member in jobs.artifact(job, bucket=bucket, prefix=prefix)


@pytest.mark.parametrize("name", ["single_gpu", "create_training_job"])
def test_one_worker_of_plain_pytorch(outputs: dict[str, Ran], jobs: Jobs, name: str) -> None:
    ran = outputs[name]
    check_log(ran)
    losses = [float(loss) for loss in re.findall(r"epoch \d loss=([0-9.]+)", ran.output)]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    check_model(jobs, ran, "model.pth")


def test_the_hugging_face_estimator(outputs: dict[str, Ran], jobs: Jobs) -> None:
    ran = outputs["hugging_face"]
    check_log(ran)
    assert "on xla with 1 workers" in ran.output
    assert len(re.findall(r"\{'loss': [0-9.]+, 'grad_norm'", ran.output)) == 4
    check_model(jobs, ran, "model.safetensors")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("distributed", "torch_xla.distributed.xla_spawn --num_gpus 4 train.py"),
        ("launcher", "-- distributed_training_launcher.py"),
    ],
)
def test_four_workers(outputs: dict[str, Ran], jobs: Jobs, name: str, command: str) -> None:
    ran = outputs[name]
    check_log(ran)
    steps = re.findall(r"step (\d+) of 4 workers: loss=([0-9.]+);", ran.output)
    assert [int(step) for step, _loss in steps] == [0, 10, 20, 30]
    # The same script, whoever starts it; as the READMEs have them.
    assert [float(loss) for _step, loss in steps] == pytest.approx([float(loss) for loss in LOSSES], rel=1e-5)
    for loss in LOSSES:
        assert loss in (ROOT / "examples" / name / "README.md").read_text()
    assert command in ran.output
    check_model(jobs, ran, "model.pt")


def test_a_pair_of_the_best_practices(outputs: dict[str, Ran]) -> None:
    ran = outputs["best_practices"]
    assert ran.code == 0, ran.output[-4000:]
    wrong, right = ran.output.split("\nright: ")
    assert re.search(r"\nwrong: unreadable-checkpoint-wrong-\S+ Failed\n", wrong)
    assert "error unreadable-checkpoint unreadable_checkpoint_wrong.py:12" in wrong
    assert re.match(r"unreadable-checkpoint-right-\S+ Completed\n", right)
    assert "unreadable-checkpoint unreadable_checkpoint" not in right


def test_the_tuning_of_a_compiled_script(outputs: dict[str, Ran], jobs: Jobs) -> None:
    ran = outputs["tuning"]
    assert ran.code == 0, ran.output[-4000:]
    names = re.findall(r"^\d+ +(tune-gpt2-\S+) +[0-9.]+ +[0-9.]+ +[0-9.]+$", ran.output, re.MULTILINE)
    assert len(names) == 1
    assert ran.model[1] == names[0]
    check_model(jobs, ran, "model.safetensors")
    for name in names:
        assert jobs.server.report(name)["compiled"]

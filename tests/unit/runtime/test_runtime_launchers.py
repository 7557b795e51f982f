"""Which workers a job has, their variables, and how a worker runs its script. Nothing is started here."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.base.hub_misses import HubMisses
from sagelet_runtime.base.processes import ProcessInfo, stop_targets
from sagelet_runtime.base.world import World, from_environment, from_json
from sagelet_runtime.torch_xla.spawn_modules import stand_in
from sagelet_runtime.workers import cause, distribution, script, sm_dist, worker_failures
from sagelet_runtime.workers.worker_failures import WorkerFailure
from support.training_host import RUNTIME

TWO_HOSTS = World(("algo-1", "algo-2"), (4, 2), "algo-2", "10.0.0.1", 7777)
XLA, DDP, TORCHRUN = (
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_torch_distributed_enabled",
)


def test_ranks_count_through_the_hosts() -> None:
    assert TWO_HOSTS.environment(1) == {
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "6",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "7777",
        "PJRT_LOCAL_PROCESS_RANK": "1",
        "PJRT_LOCAL_PROCESS_COUNT": "2",
    }
    assert TWO_HOSTS.mpi_environment(1)["OMPI_COMM_WORLD_RANK"] == "5"
    assert TWO_HOSTS.name_of(3) == "worker 3 of 6 (algo-1, local rank 3)"
    assert TWO_HOSTS.name_of(4) == "worker 4 of 6 (algo-2, local rank 0)"
    assert from_json(TWO_HOSTS.to_json()) == TWO_HOSTS


def test_a_launcher_outside_of_a_job_has_one_host() -> None:
    world = from_environment({"GPU_NUM_DEVICES": "3"})
    assert (world.size, world.master_address) == (3, "127.0.0.1")
    assert from_environment({}, workers=2).environment(1)["WORLD_SIZE"] == "2"
    assert from_environment({"SAGELET_WORLD": TWO_HOSTS.to_json()}, workers=3).first_rank == 3


def job(current: str, parameters: dict[str, object], chosen: tuple[str, ...] = ("gpus",)) -> Any:
    """A host of a heterogeneous cluster, as AWS's toolkit describes it."""
    groups = [
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-1"]},
        {"instance_group_name": "gpus", "instance_type": "ml.p3.8xlarge", "hosts": ["algo-2", "algo-3"]},
    ]
    own = next(group for group in groups if current in group["hosts"])
    return SimpleNamespace(
        additional_framework_parameters=parameters,
        resource_config={"instance_groups": groups},
        hosts=["algo-1", "algo-2", "algo-3"],
        current_host=current,
        current_instance_type=own["instance_type"],
        current_instance_group=own["instance_group_name"],
        distribution_instance_groups=list(chosen),
        distribution_hosts=[h for g in groups if g["instance_group_name"] in chosen for h in g["hosts"]],
        num_gpus=0,
    )


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({}, None),
        ({XLA: True}, "pytorchxla"),
        ({XLA: "false", TORCHRUN: '"true"'}, "torch_distributed"),
        # In the order of AWS's module.
        ({XLA: True, TORCHRUN: True, DDP: True}, "pytorchddp"),
        ({"sagemaker_distributed_dataparallel_enabled": True, TORCHRUN: True}, "torch_distributed"),
    ],
)
def test_the_launcher_that_a_job_asks_for(parameters: dict[str, object], name: str | None) -> None:
    assert distribution.chosen(job("algo-2", parameters)) == name


def test_a_distribution_is_of_its_instance_groups() -> None:
    counts = {"SAGELET_INSTANCE_GPUS": '{"ml.c5.xlarge": 0, "ml.p3.8xlarge": 4}'}
    inside = distribution.world_of(job("algo-3", {DDP: True}), counts, "algo-2", 7777)
    assert (inside.hosts, inside.workers, inside.first_rank) == (("algo-2", "algo-3"), (4, 4), 4)
    outside = job("algo-1", {DDP: True})
    assert distribution.chosen(outside) is None
    both = distribution.world_of(job("algo-3", {DDP: True}, ("data", "gpus")), counts, "algo-1", 7777)
    assert (both.workers, both.first_rank) == ((1, 4, 4), 5)


def test_the_log_says_what_the_workers_are() -> None:
    text = distribution.announcement("pytorchxla", World(("a", "b"), (4, 4), "a", "a", 1), "ml.p3.8xlarge", 0, 1)
    assert text == (
        "pytorchxla: 4 CPU worker(s) for 4 GPU(s) of ml.p3.8xlarge, which this host does not have, on each of 2 hosts: "
        "8 worker(s), 1 thread(s) each"
    )
    real = distribution.announcement("pytorchddp", World(("a",), (4,), "a", "a", 1), "ml.p3.8xlarge", 4, 8)
    assert (
        real == "pytorchddp: 1 worker for each of 4 GPU(s) of ml.p3.8xlarge on one host: 4 worker(s), 8 thread(s) each"
    )


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("def _mp_fn(index):\n    pass\n", True),
        ("import logging\nlog = logging.getLogger(__name__)\ndef _mp_fn(index):\n    main()\n", True),
        ("def _mp_fn(index):\n    pass\nif __name__ == '__main__':\n    main()\n", False),
        ("def _mp_fn(index):\n    pass\nxmp.spawn(_mp_fn)\n", False),
        ("print('no such function')\n", False),
        ("def broken(:\n", False),
    ],
)
def test_a_script_that_only_defines_mp_fn_gets_it_called(tmp_path: Path, text: str, bare: bool) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    assert script.calls_for_mp_fn(file) == bare
    assert ("sagelet_runtime.workers.script" in script.command(str(file), ["--x"])) == bare


@pytest.mark.parametrize(
    ("given", "program", "rest"),
    [
        (
            "--batch_size 2 --n_gpus 4 --training_script a/train.py --z 1",
            "a/train.py",
            "--batch_size 2 --n_gpus 4 --z 1",
        ),
        ("--training_script=train.py", "train.py", ""),
        ("train.py --lr 1", "train.py", "--lr 1"),
    ],
)
def test_sm_dist_finds_the_script_among_the_hyperparameters(given: str, program: str, rest: str) -> None:
    assert sm_dist.split(given.split()) == (program, rest.split())


@pytest.mark.parametrize("given", ["", "--lr 1", "--lr 1 --training_script"])
def test_sm_dist_without_a_script_names_the_hyperparameter(given: str) -> None:
    with pytest.raises(ValueError, match="training_script"):
        sm_dist.split(given.split())


@pytest.mark.parametrize(
    "command",
    [("python", "train.py"), ("python", "train.py", "-m", "torch_xla.distributed.xla_spawn"), ("python", "-m")],
)
def test_only_the_launchers_own_process_goes_without_torch_xla(command: tuple[str, ...]) -> None:
    assert not stand_in(command)


# --- ends -----------------------------------------------------------------------------------------------------------


def process(pid: int, parent: int, command: str) -> ProcessInfo:
    return ProcessInfo(pid, parent, tuple(command.split()))


@pytest.mark.parametrize(
    "launcher",
    [
        "/usr/bin/python3 -m torch_xla.distributed.xla_spawn --num_gpus 2 train.py",
        "python -m torch_xla.distributed.sm_dist --training_script train.py",
        "python -m sagelet_runtime.workers.mpi_like python train.py",
        "/usr/bin/python3 /usr/local/bin/torchrun --nnodes 1 train.py",
        "python -m torch.distributed.run train.py",
    ],
)
def test_a_launcher_hands_a_stop_on_itself(launcher: str) -> None:
    table = [
        process(10, 1, "/bin/sh -c torchrun"),
        process(11, 10, launcher),
        process(12, 11, "python train.py"),
        process(13, 10, "python torchrun_notes.py -m torchrun"),
        process(14, 13, "sleep 5"),
    ]
    assert stop_targets(table, 1) == [10, 11, 13, 14]


def note(directory: Path, failure: WorkerFailure, attempt: int = 0) -> None:
    worker_failures.note(worker_failures.attempt_directory(directory, attempt), failure)


def test_the_first_death_is_the_cause(tmp_path: Path) -> None:
    assert worker_failures.first(tmp_path, {}) is None
    for failure in (
        WorkerFailure(0, 1000),
        WorkerFailure(1, 1500, "ValueError"),
        WorkerFailure(2, 1499, "RuntimeError"),
        WorkerFailure(3, 900),
    ):
        note(tmp_path, failure)
    assert worker_failures.first(tmp_path, {}) == WorkerFailure(2, 1499, "RuntimeError")
    assert worker_failures.first(tmp_path, {3: 7, 1: 1}) == WorkerFailure(3, 900)
    note(tmp_path, WorkerFailure(0, 2900, "killed by SIGKILL", killed=True))
    assert worker_failures.first(tmp_path, {0: -9}) == WorkerFailure(0, 2900, "killed by SIGKILL", killed=True)
    note(tmp_path, WorkerFailure(1, 100))
    assert worker_failures.first(tmp_path, {1: 1}) == WorkerFailure(0, 2900, "killed by SIGKILL", killed=True)


def test_an_abort_is_no_kill_from_outside() -> None:
    assert worker_failures.killed_by(0, 1) is None
    killed, aborted = worker_failures.killed_by(0, -9), worker_failures.killed_by(0, -6)
    assert killed is not None
    assert aborted is not None
    assert (killed.text, killed.killed) == ("killed by SIGKILL", True)
    assert (aborted.text, aborted.killed) == ("killed by SIGABRT", False)


TORCHRUN_REPORT = """
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_16:10:21
  host      : localhost
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 27283)
  error_file: <N/A>
"""


def environment(tmp_path: Path) -> dict[str, str]:
    return {"SAGELET_WORKER_NOTES": str(tmp_path), "SAGELET_WORLD": TWO_HOSTS.to_json()}


def test_the_error_of_a_job_names_its_worker(tmp_path: Path) -> None:
    note(tmp_path, WorkerFailure(4, 1000, 'Traceback (most recent call last):\n  File "a"\n    go()\nValueError: bad'))
    text = cause.explain(environment(tmp_path), 1, [])
    assert text == (
        'worker 4 of 6 (algo-2, local rank 0):\n Traceback (most recent call last):\n File "a"\n go()\n ValueError: bad'
    )
    assert (tmp_path / "failure.json").exists()


def test_a_worker_that_torchrun_saw_killed_outranks_its_peers(tmp_path: Path) -> None:
    note(tmp_path, WorkerFailure(4, 1000, "RuntimeError: Connection closed by peer"))
    text = cause.explain(environment(tmp_path), 1, TORCHRUN_REPORT.splitlines())
    assert text == "worker 5 of 6 (algo-2, local rank 1) was killed by SIGKILL"


def test_only_the_last_attempt_of_workers_that_were_started_again_counts(tmp_path: Path) -> None:
    note(tmp_path, WorkerFailure(4, 1000, "ValueError: of the first attempt"))
    note(tmp_path, WorkerFailure(5, 2000, "KeyError: of the second"), attempt=1)
    assert (
        cause.explain(environment(tmp_path), 1, []) == "worker 5 of 6 (algo-2, local rank 1): KeyError: of the second"
    )


def test_an_attempt_that_left_no_note_outdates_those_before_it(tmp_path: Path) -> None:
    note(tmp_path, WorkerFailure(4, 1000, "ValueError: of the first attempt"), attempt=9)
    worker_failures.attempt_directory(tmp_path, 10).mkdir()
    assert cause.explain(environment(tmp_path), 1, []) is None


WORKER = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", "raise KeyError('of a program that the worker started')"])
subprocess.run([sys.executable, "-c", ""])
if os.fork() == 0:
    raise LookupError("of a fork")
os.wait()
if sys.argv[1] == "raise":
    raise ValueError("of the worker")
"""


@pytest.mark.parametrize(("end", "text"), [("raise", "ValueError: of the worker"), ("leave", "")])
def test_only_the_worker_itself_leaves_a_note(tmp_path: Path, end: str, text: str) -> None:
    variables = {"RANK": "3", "TORCHELASTIC_RESTART_COUNT": "2", "SAGELET_WORKER_NOTES": str(tmp_path)}
    environ = {**os.environ, **variables, "PYTHONPATH": f"{RUNTIME / 'sagelet_runtime' / 'startup'}:{RUNTIME}"}
    subprocess.run([sys.executable, "-c", WORKER, end], env=environ, capture_output=True, timeout=120, check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["attempt-2"]
    died = worker_failures.first(tmp_path, {3: 1})
    assert died is not None
    assert (died.rank, died.text.splitlines()[-1:]) == (3, [text] if text else [])


def test_a_job_that_ended_well_or_says_nothing_has_no_cause(tmp_path: Path) -> None:
    assert cause.explain(environment(tmp_path), 1, []) is None
    note(tmp_path, WorkerFailure(4, 1000, "ValueError: bad"))
    assert cause.explain(environment(tmp_path), 0, []) is None
    assert cause.explain({}, 1, []) is None


def test_the_error_of_a_worker_names_the_command_that_adds_what_the_hub_has_not(tmp_path: Path) -> None:
    note(
        tmp_path,
        WorkerFailure(4, 1000, "Traceback (most recent call last):\n  File 'a'\nOSError: gpt9 is not a local folder"),
    )
    misses = HubMisses()
    misses.feed("sagelet: sagelet's hub has no model gpt9: add it with `sagelet hub add DIR --as gpt9`, or else")
    text = cause.explain(environment(tmp_path), 1, [], misses) or ""
    assert text.endswith("\n sagelet's hub has no model gpt9: add it with `sagelet hub add DIR --as gpt9`")


def test_a_long_traceback_fits_the_failure_reason(tmp_path: Path) -> None:
    frames = "".join(f'  File "train.py", line {n}, in f\n    f()\n' for n in range(500))
    note(tmp_path, WorkerFailure(4, 1000, f"Traceback (most recent call last):\n{frames}ValueError: {'x' * 3000}"))
    text = cause.explain(environment(tmp_path), 1, []) or ""
    assert len(text) <= 960
    assert text.startswith("worker 4 of 6 (algo-2, local rank 0):\n Traceback")
    assert "ValueError: xxx" in text

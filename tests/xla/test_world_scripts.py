"""Scripts of the seeds' kind, unchanged: two workers on half of the batch train as one process on all of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.xla_workers import plain_environment, quiet_port, results, run_workers

pytestmark = pytest.mark.xla

PROGRAMS = Path(__file__).with_name("programs")
TRAINING = PROGRAMS / "training.py"
TRAINER = PROGRAMS / "trainer.py"
#: Sums in another order: the prototype's runs were 3e-8 (SGD) and 5e-8 (AdamW) apart.
WEIGHTS = 2e-7
LOSSES = 1e-6
#: Of six steps of AdamW at 1e-2 in bfloat16.
MEAN_WEIGHTS = 1e-3

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    def run(workers: int, *command: str | Path) -> list[dict[str, Any]]:
        """One plain process, as a job's only one."""
        directory = tmp_path_factory.mktemp("run")
        environment = plain_environment() | {"RESULTS": str(directory)}
        ended = subprocess.run(
            [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, timeout=400
        )
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-6000:]
        found = results(directory, workers)
        for rank, inside in ((rank, directory / f"inside-{rank}.json") for rank in range(workers)):
            if inside.exists():
                found[rank]["inside"] = json.loads(inside.read_text())
        return found

    return run


@pytest.fixture(scope="module")
def alone(run: Run) -> dict[str, Any]:
    return run(1, TRAINING, "direct")[0]


@pytest.fixture(scope="module")
def under_torchrun(run: Run) -> list[dict[str, Any]]:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    return run(2, *launcher, TRAINING, "launch")


@pytest.fixture(scope="module")
def on_two_hosts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """torchrun as AWS's toolkit calls it on each of two hosts, with two workers each."""
    directory = tmp_path_factory.mktemp("hosts")
    environment = plain_environment() | {"RESULTS": str(directory)}
    common = [
        "--nnodes",
        "2",
        "--nproc_per_node",
        "2",
        "--master_addr",
        "127.0.0.1",
        "--master_port",
        str(quiet_port()),
    ]
    logs = [directory / f"{host}.log" for host in range(2)]
    agents = []
    for host, log in enumerate(logs):
        command = [sys.executable, "-m", "torch.distributed.run", *common, "--node_rank", str(host)]
        with log.open("wb") as out:
            agents.append(
                subprocess.Popen(
                    [*command, str(TRAINING), "launch", "optimizer_step,wrapped"],
                    env=environment, stdout=out, stderr=out, start_new_session=True,
                )
            )  # fmt: skip
    try:
        codes = [agent.wait(400) for agent in agents]
    finally:
        for agent in agents:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
                agent.wait()
    assert codes == [0, 0], "\n".join(log.read_text(errors="replace")[-6000:] for log in logs)
    return results(directory, 4)


@pytest.mark.parametrize("way", ["optimizer_step", "wrapped"])
def test_two_hosts_of_two_workers_train_as_one_process(
    on_two_hosts: list[dict[str, Any]], alone: dict[str, Any], way: str
) -> None:
    for ranks in (on_two_hosts[:2], on_two_hosts[2:]):
        assert_same_training(ranks, alone, way)
    assert on_two_hosts[0][way]["weights"] == on_two_hosts[3][way]["weights"]


def test_ordinals_count_through_the_hosts(on_two_hosts: list[dict[str, Any]]) -> None:
    assert [found["identity"] for found in on_two_hosts] == [[0, 0, 4, 0], [1, 1, 4, 1], [2, 2, 4, 0], [3, 3, 4, 1]]


def difference(one: Any, other: Any) -> float:
    """The largest, of numbers in lists or dicts of the same build."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return max(difference(one[key], other[key]) for key in one)
    if isinstance(one, list):
        assert len(one) == len(other)
        return max((difference(*pair) for pair in zip(one, other, strict=True)), default=0.0)
    return abs(float(one) - float(other))


def mean_difference(one: dict[str, list[float]], other: dict[str, list[float]]) -> float:
    pairs = [pair for name in one for pair in zip(one[name], other[name], strict=True)]
    return sum(abs(x - y) for x, y in pairs) / len(pairs)


def assert_same_training(ranks: list[dict[str, Any]], alone: dict[str, Any], way: str) -> None:
    assert ranks[0][way]["weights"] == ranks[1][way]["weights"]
    assert ranks[0][way]["losses"] == ranks[1][way]["losses"]
    assert difference(ranks[0][way]["losses"], alone[way]["losses"]) < LOSSES
    assert difference(ranks[0][way]["weights"], alone[way]["weights"]) < WEIGHTS


@pytest.mark.parametrize(
    "way",
    [
        "optimizer_step",
        "fetched_gradients",
        "clipped",
        "accumulated",
        "resumed",
        "wrapped",
        "accelerated_in_float32",
    ],
)
def test_two_workers_train_as_one(under_torchrun: list[dict[str, Any]], alone: dict[str, Any], way: str) -> None:
    assert_same_training(under_torchrun, alone, way)


@pytest.mark.parametrize("way", ["scaled_mixed_precision", "accelerated"])
def test_mixed_precision(under_torchrun: list[dict[str, Any]], alone: dict[str, Any], way: str) -> None:
    # bfloat16 has three digits, and each half of a batch is rounded for itself.
    assert under_torchrun[0][way]["weights"] == under_torchrun[1][way]["weights"]
    assert difference(under_torchrun[0][way]["losses"], alone[way]["losses"]) < 5e-3
    assert mean_difference(under_torchrun[0][way]["weights"], alone[way]["weights"]) < MEAN_WEIGHTS
    assert alone[way]["losses"][-1] < alone[way]["losses"][0]


def test_clipping_sees_the_reduced_gradients(under_torchrun: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    norms = [found["clipped"]["norms"] for found in (*under_torchrun, alone)]
    assert norms[0] == norms[1]
    assert difference(norms[0], norms[2]) < LOSSES
    assert min(norms[2]) > 0.05


def test_each_worker_gets_its_share(under_torchrun: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    assert alone["optimizer_step"]["batches"] == [32] * 6
    assert [found["optimizer_step"]["batches"] for found in under_torchrun] == [[16] * 6] * 2


def test_ddps_gradients_are_the_mean_of_the_workers(
    under_torchrun: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    first, second = (found["wrapped"]["gradients"] for found in under_torchrun)
    assert first == second
    assert difference(first, alone["wrapped"]["gradients"]) < WEIGHTS


def test_ddps_buckets_are_one_cut(under_torchrun: list[dict[str, Any]]) -> None:
    """Four parameters in buckets of 2 KB: forward and backward pass, update, and the loss that the script reads."""
    assert max(under_torchrun[0]["wrapped"]["cuts"]) <= 3


def test_launch_passes_the_ordinal(under_torchrun: list[dict[str, Any]]) -> None:
    assert [found["identity"] for found in under_torchrun] == [[0, 0, 2, 0], [1, 1, 2, 1]]


def test_spawn_in_a_plain_script_starts_the_workers(run: Run, alone: dict[str, Any]) -> None:
    ranks = run(2, TRAINING, "spawn", "optimizer_step", "2")
    assert [found["identity"] for found in ranks] == [[0, 0, 2, 0], [1, 1, 2, 1]]
    assert_same_training(ranks, alone, "optimizer_step")


def test_spawn_in_a_started_worker_is_that_worker(under_torchrun: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(under_torchrun):
        index, expected, own = found["inside"]
        assert (index, int(expected)) == (rank, own)


@pytest.fixture(scope="module")
def trainer_alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return trained(tmp_path_factory.mktemp("alone"), 1)[0]


@pytest.fixture(scope="module")
def trainer_of_two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return trained(tmp_path_factory.mktemp("two"), 2)


def trained(directory: Path, workers: int) -> list[dict[str, Any]]:
    ended = run_workers(workers, [TRAINER], directory)
    found = results(directory, workers)
    return [rank | {"log": worker.out} for rank, worker in zip(found, ended, strict=True)]


def test_trainer_of_two_workers_trains_as_one(
    trainer_of_two: list[dict[str, Any]], trainer_alone: dict[str, Any]
) -> None:
    """fp16=True (bfloat16 on CPUs), adamw_torch_xla, clipping, and a second half from a checkpoint.

    Where a gradient is almost nothing, AdamW's first steps go by its sign alone: single weights are up to a step apart.
    """
    assert len(trainer_alone["losses"]) == 4
    assert trainer_of_two[0]["losses"] == pytest.approx(trainer_alone["losses"], rel=2e-3)
    assert trainer_of_two[0]["weights"] == trainer_of_two[1]["weights"]
    moved = mean_difference(trainer_alone["weights"], trainer_alone["before"])
    assert moved > 1e-3
    assert mean_difference(trainer_of_two[0]["weights"], trainer_alone["weights"]) < moved / 20


def test_trainer_of_two_workers_ends_with_the_weights_of_one(
    trainer_of_two: list[dict[str, Any]], trainer_alone: dict[str, Any]
) -> None:
    """In float32, with SGD."""
    first, second = (found["weights in float32"] for found in trainer_of_two)
    assert first == second
    assert difference(first, trainer_alone["weights in float32"]) < WEIGHTS
    assert difference(first, trainer_alone["before"]) > 0.01


def test_trainer_gives_each_worker_its_share(
    trainer_of_two: list[dict[str, Any]], trainer_alone: dict[str, Any]
) -> None:
    # Of all workers: the Trainer's throughput is made of it.
    assert [found["examples"] for found in (*trainer_of_two, trainer_alone)] == [64] * 3
    first, second = (set(found["rows"]) for found in trainer_of_two)
    assert not first & second
    assert first | second == set(trainer_alone["rows"])


def test_trainer_logs_and_saves_once(trainer_of_two: list[dict[str, Any]]) -> None:
    assert "{'loss': " in trainer_of_two[0]["log"]
    assert "{'loss': " not in trainer_of_two[1]["log"]
    assert ["model.safetensors" in found["saved"] for found in trainer_of_two] == [True, False]

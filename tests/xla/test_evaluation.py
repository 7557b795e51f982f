"""Evaluations and trainings whose last batch is ragged: compiled workers count and update as one native process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.xla_workers import results, run_workers

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).with_name("programs") / "evaluation.py"
#: Of the program.
BATCH, EVALUATED = 4, 10
WORKERS = [1, 2, 3, 4]
WEIGHTS = 1e-6
LOSSES = 1e-6
#: The Trainer logs losses with four digits.
LOGGED = 1.1e-4

Found = dict[str, Any]


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """One process without torch_xla."""
    directory = tmp_path_factory.mktemp("native")
    run_workers(1, [PROGRAM], directory, {"USE_TORCH_XLA": "0", "ACCELERATE_USE_CPU": "true", "RAGGED": "1"})
    return results(directory, 1)[0]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[Found]]:
    kept: dict[int, list[Found]] = {}

    def run(workers: int) -> list[Found]:
        if workers not in kept:
            directory = tmp_path_factory.mktemp(f"compiled-{workers}")
            run_workers(workers, [PROGRAM], directory, {"RAGGED": "1"})
            kept[workers] = results(directory, workers)
        return kept[workers]

    return run


@pytest.fixture(params=WORKERS)
def workers(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


def apart(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other)
    return max(abs(x - y) for x, y in zip(one, other, strict=True))


def test_an_evaluation_counts_each_sample_once(
    compiled: Callable[[int], list[Found]], native: Found, workers: int
) -> None:
    expected = native["evaluated"]["evaluate"]
    assert (expected["eval_count"], expected["eval_mean"]) == (EVALUATED, 4.5)
    for found in compiled(workers):
        for how in ("evaluate", "stream", "loaded stream"):
            metrics = found["evaluated"][how]
            assert [metrics[f"eval_{name}"] for name in ("count", "mean", "accuracy")] == [
                expected[f"eval_{name}"] for name in ("count", "mean", "accuracy")
            ], how


def test_a_prediction_has_one_row_for_each_sample_in_their_order(
    compiled: Callable[[int], list[Found]], native: Found, workers: int
) -> None:
    expected = native["evaluated"]
    for rank in compiled(workers):
        found = rank["evaluated"]
        assert found["rows"] == expected["rows"] == [float(row) for row in range(EVALUATED)]
        assert found["labels"] == expected["labels"]
        flat = [[number for row in one["logits"] for number in row] for one in (found, expected)]
        assert apart(*flat) < LOSSES
        assert found["predict"]["test_count"] == EVALUATED


def test_objects_are_gathered_as_natively(compiled: Callable[[int], list[Found]], native: Found, workers: int) -> None:
    assert native["objects"] == [f"answer {row}" for row in range(EVALUATED)]
    for found in compiled(workers):
        assert found["objects"] == native["objects"]


def test_a_loader_that_only_the_first_worker_would_read(
    compiled: Callable[[int], list[Found]], native: Found, workers: int
) -> None:
    """Accelerate refuses `dispatch_batches=True` on XLA."""
    for found in compiled(workers):
        assert found["dispatched"] == native["dispatched"] == [float(row) for row in range(EVALUATED)]


def test_the_loss_of_an_evaluation(compiled: Callable[[int], list[Found]], native: Found, workers: int) -> None:
    """As the Trainer has it natively over as many workers: each one's mean stands for its samples, padding left out."""
    alone = native["evaluated"]
    for rank in compiled(workers):
        metrics = rank["evaluated"]
        expected = loss_over(workers, alone["logits"], alone["labels"])
        assert metrics["evaluate"]["eval_loss"] == pytest.approx(expected, abs=LOSSES)
        assert metrics["stream"]["eval_loss"] == pytest.approx(expected, abs=LOSSES)
        assert metrics["predict"]["test_loss"] == pytest.approx(expected, abs=LOSSES)
    assert alone["evaluate"]["eval_loss"] == pytest.approx(loss_over(1, alone["logits"], alone["labels"]), abs=LOSSES)


def loss_over(workers: int, logits: list[list[float]], labels: list[int]) -> float:
    import torch

    each = torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(labels), reduction="none")
    batches = [list(range(begin, min(begin + BATCH, EVALUATED))) for begin in range(0, EVALUATED, BATCH)]
    if workers > 1:
        whole = -(-EVALUATED // (BATCH * workers)) * BATCH * workers
        places = [place % EVALUATED for place in range(whole)]
        batches = [places[begin : begin + BATCH] for begin in range(0, whole, BATCH)]
    means = torch.cat([each[batch].mean().repeat(BATCH) for batch in batches])
    return float(means[:EVALUATED].mean())


@pytest.mark.parametrize("rows", ["whole", "ragged"])
def test_trainings_update_as_one_process(
    compiled: Callable[[int], list[Found]], native: Found, workers: int, rows: str
) -> None:
    """Five batches, two to an update. The last update has one, which where they are ragged several workers fill up.

    One process on all of the rows, with those again that they fill up with, is what they are equal to.
    """
    expected = native["ragged" if rows == "ragged" and workers == 1 else "whole"]
    for rank in compiled(workers):
        found = rank[rows]
        loop = found["accelerate"]
        assert loop["updates"] == expected["accelerate"]["updates"] == [False, True, False, True, True] * 2
        assert loop["ends"] == expected["accelerate"]["ends"] == [False] * 4 + [True] + [False] * 4 + [True]
        assert apart(loop["losses"], expected["accelerate"]["losses"]) < LOSSES
        assert apart(loop["weights"], expected["accelerate"]["weights"]) < WEIGHTS
        assert loop["gathered"] == [float(row) for row in range(EVALUATED)]
        assert apart(found["trainer"]["losses"], expected["trainer"]["losses"]) < LOGGED
        assert apart(found["trainer"]["weights"], expected["trainer"]["weights"]) < WEIGHTS
        assert found["trainer"]["counts"] == [EVALUATED] * 6
        assert found["trainer"]["accuracies"] == expected["trainer"]["accuracies"]


def test_a_dataset_that_raises_ends_no_loop_in_silence(compiled: Callable[[int], list[Found]], native: Found) -> None:
    assert compiled(1)[0]["broken"] == native["broken"] == "row 9 is bad after 8"

"""Collectives between two workers on CPUs: one program calls all of them, and each test looks at one."""

from pathlib import Path
from typing import Any

import pytest

from support.xla_workers import EndedWorker, results, run_workers

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).with_name("programs") / "collectives.py"
IMAGE = {"SAGELET_TRAINING_IMAGE": "pytorch-trcomp-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker"}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[EndedWorker], list[dict[str, Any]]]:
    directory = tmp_path_factory.mktemp("collectives")
    return run_workers(2, [PROGRAM], directory, IMAGE), results(directory, 2)


@pytest.fixture(scope="module")
def ranks(ended: tuple[list[EndedWorker], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What each rank saw, by name."""
    return ended[1]


#: What both ranks see.
SAME: dict[str, Any] = {
    "all_reduce sum": [5.0, 9.0],
    "all_reduce mul": [6.0, 20.0],
    "all_reduce min": [2.0, 4.0],
    "all_reduce max": [3.0, 5.0],
    "all_reduce int sum": [5, 9],
    "all_reduce int mul": [6, 20],
    "all_reduce int min": [2, 4],
    "all_reduce int max": [3, 5],
    "all_reduce int and": [4, 1],
    "all_reduce int or": [7, 1],
    "all_reduce bool and": [False, True],
    "all_reduce bool or": [True, True],
    "all_reduce short": [600, 1],
    "all_reduce scale": [0.5, 4.0],
    "all_reduce one group": [1.0],
    "all_reduce scalar": 3.0,
    "all_reduce keeps its input": [1.0, 2.0],
    "all_reduce list": [[0.5], [1.0, 2.0], [2.0, 1.0], [5.0]],
    "all_reduce list types": ["torch.float32", "torch.bfloat16", "torch.float16", "torch.float32"],
    "all_reduce list is its input": True,
    "all_reduce bfloat16": [1.0078125, 0.0078125],
    "all_reduce empty list": [],
    "all_reduce many buckets": [2.0 * index + 1 for index in range(12)],
    "all_reduce again": [2.0 * index + 1 for index in range(12)] + [4.0 * index for index in range(12)],
    "all_gather": [0.0, 10.0, 1.0, 11.0],
    "all_gather dim": [[0.0, 1.0], [0.0, 1.0]],
    "all_gather bool": [False, True, True, True],
    "all_gather list": [[0.0, 1.0], [5.0, 6.0, 5.0, 6.0]],
    "all_gather output": [1.0, 2.0],
    "all_gather empty": [0, 3],
    "broadcast": [[1.0], [1], [True, False]],
    "rendezvous": ["x", "xx"],
    "rendezvous without payload": ["", ""],
    "mesh_reduce": 1.0,
    "mesh_reduce numpy": 0.5,
    "mesh_reduce tensor": 3.0,
    "closure before the step": [],
    "closure after the step": [3.0],
    "save": [0, "cpu"],
    "dist.all_reduce": [3.0],
    "dist.all_reduce average": [1.5],
    "dist.all_gather": [[1.0], [2.0]],
    "dist.all_gather_into_tensor": [1.0, 2.0],
    "dist.broadcast": [2.0],
    "dist.all_gather_object": [{"rank": 0}, {"rank": 1}],
    "dist.broadcast_object_list": [1, "text"],
    "after errors": [2.0],
}

#: What each rank sees.
EACH: dict[str, tuple[Any, Any]] = {
    "world": ([2, 0, 0, 2], [2, 1, 1, 2]),
    "counts": ([2, 0, 2, 0], [2, 1, 2, 0]),
    "old names": ([2, 0, 0], [2, 1, 1]),
    "master": ([True, True], [False, False]),
    "all_reduce own group": ([0.0], [1.0]),
    "all_gather groups": ([0.0], [1.0]),
    "reduce_scatter": ([1.0, 3.0], [5.0, 7.0]),
    "reduce_scatter dim": ([[0.0, 1.0]], [[2.0, 3.0]]),
    "reduce_scatter list": ([[2.0], [6.0]], [[4.0], [8.0]]),
    "reduce_scatter bucketized": ([[2.0], [6.0]], [[4.0], [8.0]]),
    "all_to_all": ([0.0, 1.0, 10.0, 11.0], [2.0, 3.0, 12.0, 13.0]),
    "all_to_all dims": ([[0.0, 1.0, 10.0, 11.0]], [[2.0, 3.0, 12.0, 13.0]]),
    "permute": ([2.0], [1.0]),
    "permute to none": ([0.0], [1.0]),
    "on ordinal": (None, 1),
    # torch_xla: each worker its own slice of the gradient.
    "differentiable all_gather": ([1.0, 2.0], [6.0, 8.0]),
    "differentiable all_reduce": ([3.0, 4.0], [6.0, 8.0]),
    "dist": ([0, 2, "xla"], [1, 2, "xla"]),
    "dist.reduce": ([3.0], [2.0]),
    "dist.reduce_scatter_tensor": ([3.0], [6.0]),
    "dist.reduce_scatter": ([2.0], [4.0]),
    "dist.all_to_all_single": ([0.0, 10.0], [1.0, 11.0]),
    "dist.all_to_all": ([[0.0], [10.0]], [[1.0], [11.0]]),
    "dist.gather": ([[5.0], [6.0]], None),
    "dist.scatter": ([8.0], [9.0]),
    "dist.recv": (None, [42.0]),
    "dist.new_group": ([1.0], [2.0]),
}


@pytest.mark.parametrize("name", SAME)
def test_all_workers_get(ranks: list[dict[str, Any]], name: str) -> None:
    assert [rank[name] for rank in ranks] == [SAME[name], SAME[name]]


@pytest.mark.parametrize("name", EACH)
def test_each_worker_gets(ranks: list[dict[str, Any]], name: str) -> None:
    assert tuple(rank.get(name) for rank in ranks) == EACH[name]


def test_the_masters_parameters_and_buffers_are_everyones(ranks: list[dict[str, Any]]) -> None:
    first, second = (rank["broadcast_master_param"] for rank in ranks)
    assert first == second
    assert len(first) == 7


def test_figures_of_one_collective(ranks: list[dict[str, Any]]) -> None:
    # Two float32 and one bfloat16.
    assert ranks[0]["figures"] == [1, 10, True]


@pytest.mark.parametrize(
    ("case", "kind", "says"),
    [
        ("spmd", "NotAcrossProcesses", "train data-parallel with xm.optimizer_step"),
        ("native", "NotAcrossProcesses", "call it outside of the function that torch.compile"),
        ("functional", "NotAcrossProcesses", "call it outside of the function that torch.compile"),
        ("fsdp", "NotAcrossProcesses", "XlaFullyShardedDataParallel is not available between workers on CPUs"),
        ("zero", "NotAcrossProcesses", "ZeroRedundancyOptimizer is not available between workers on CPUs"),
        ("send", "NotAcrossProcesses", "use xm.collective_permute"),
        ("recv", "NotAcrossProcesses", "use xm.collective_permute"),
        ("spmd variable", "NotAcrossProcesses", "train data-parallel with xm.optimizer_step"),
        ("several devices", "NotAcrossProcesses", "CPU_NUM_DEVICES must be 1"),
        ("split sizes", "NotImplementedError", "pad the parts to one size"),
        ("partial groups", "ValueError", "groups=[[0]] must hold each of the 2 ordinals exactly once"),
        ("overlapping groups", "ValueError", "must hold each of the 2 ordinals exactly once"),
        ("reduce type", "ValueError", "'average' is not one of sum, mul, and, or, min, max"),
        ("float and", "TypeError", "is for integers and bool, not torch.float32"),
        ("shards", "ValueError", "cannot be split into 2 equal parts"),
        ("shard count", "ValueError", "shard_count=3 must be the number of workers in the group, 2"),
    ],
)
def test_refused(ranks: list[dict[str, Any]], case: str, kind: str, says: str) -> None:
    for rank in ranks:
        assert rank["errors"][case].startswith(f"{kind}: ")
        assert says in rank["errors"][case]


def test_workers_at_different_collectives_are_told_where_each_is(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert "rank 0: all_reduce sum(1.0, float32[1])\n" in rank["errors"]["disagree"]
        assert rank["errors"]["disagree"].endswith("rank 1: all_reduce sum(1.0, float32[2])")
        assert "rank 0: rendezvous(tag 0)\n  rank 1: rendezvous(tag 1)" in rank["errors"]["disagree on tags"]


def test_the_log_is_the_scripts_own(ended: tuple[list[EndedWorker], list[dict[str, Any]]]) -> None:
    first, second = ended[0]
    assert first.out.count("only the master says this\n") == 1
    assert "only the master" not in second.out
    for worker in ended[0]:
        assert "[Gloo]" not in worker.out + worker.err
        assert "Warning" not in worker.err


def test_workers_that_have_met_say_what_checks_of_awss_logs_look_for(
    ended: tuple[list[EndedWorker], list[dict[str, Any]]],
) -> None:
    for rank, worker in enumerate(ended[0]):
        said = [line for line in worker.out.splitlines() if "nranks" in line]
        assert said == [f"sagelet: gloo joins the workers, in the place of NCCL: rank {rank} nranks 2"]

"""What a job asks of a node: its instance type's CPUs and memory, or what there is."""

import pytest

from sagelet_engine.model.cluster import AllocationRequest
from sagelet_engine.runtimes.slurm.rules import Placement
from sagelet_engine.runtimes.slurm.sizes import NodeKind, size_options

SMALL = NodeKind("cpu", True, 0, 4, 16_000)
WIDE = NodeKind("cpu", True, 0, 64, 128_000)
GPU = NodeKind("gpu", False, 8, 32, 250_000)
TWO = NodeKind("gpu", False, 2, 96, 900_000)


def size(*types: str, gpus: int = 0, placement: Placement | None = None, kinds: tuple[NodeKind, ...] = ()) -> list[str]:
    order = AllocationRequest("j", "j", types, gpus=gpus)
    return size_options(order, placement or Placement(), kinds or (SMALL, WIDE, GPU, TWO))


def test_the_instance_types_own_size_where_a_node_has_it() -> None:
    assert size("ml.m5.large") == ["--cpus-per-task=2", "--mem=8192"]


def test_the_largest_of_several_instance_types() -> None:
    assert size("ml.m5.large", "ml.m5.4xlarge") == ["--cpus-per-task=16", "--mem=65536"]


def test_what_the_best_node_has_where_none_has_so_much() -> None:
    assert size("ml.m5.24xlarge") == ["--cpus-per-task=64", "--mem=128000"]


def test_nodes_of_the_partition_that_have_the_gpus_count() -> None:
    placement = Placement({"partition": "cpu,gpu"})
    assert size("ml.p3.16xlarge", gpus=8, placement=placement) == ["--cpus-per-task=32", "--mem=250000"]


@pytest.mark.parametrize(
    ("placement", "asked"),
    [
        (Placement({"memory": "10G"}), ["--cpus-per-task=2"]),
        (Placement({"cpus": "1"}), ["--mem=8192"]),
        (Placement({}, ("--mem-per-cpu=1G",)), ["--cpus-per-task=2"]),
        (Placement({}, ("--exclusive",)), ["--mem=8192"]),
        (Placement({"partition": "none"}), []),
    ],
)
def test_rules_come_first(placement: Placement, asked: list[str]) -> None:
    assert size("ml.m5.large", placement=placement) == asked


def test_a_memory_that_nobody_has_set_is_no_memory() -> None:
    assert size("ml.m5.large", kinds=(NodeKind("cpu", True, 0, 4, 1),)) == ["--cpus-per-task=2"]


def test_a_type_that_the_catalogue_lacks_asks_for_nothing() -> None:
    assert size("ml.new.type") == []

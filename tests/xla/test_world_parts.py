"""Parts of the world that need torch, in one process: meeting at the store, and how tensors are reduced."""

import importlib
import multiprocessing
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.collectives import ddp, peers, store
from sagelet_runtime.collectives.errors import WorkerLost, WorldError
from sagelet_runtime.collectives.layout import Layout, read_layout
from sagelet_runtime.collectives.reduction import Scratch, plan
from sagelet_runtime.torch_xla import spawn
from support.xla_workers import RUNTIME, quiet_port

pytestmark = pytest.mark.xla


@pytest.fixture
def torch() -> Any:
    """Imported by the tests that use it: each process of a run reads this file."""
    return importlib.import_module("torch")


def layout(rank: int, port: int, size: int = 2, seconds: int = 60) -> Layout:
    found = read_layout(
        {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "SAGELET_WORLD_JOIN_TIMEOUT": str(seconds),
        }
    )
    assert found is not None
    return found


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_port_of_another_program_is_named(taken_port: int) -> None:
    with pytest.raises(WorldError, match=f"rank 0 cannot serve the store .*MASTER_PORT={taken_port}.*in use"):
        store.open_store(layout(0, taken_port), agent_serves=False)


def test_workers_that_do_not_come_are_named() -> None:
    first = layout(0, quiet_port(), size=3, seconds=1)
    opened = store.open_store(first, agent_serves=False)
    says = "ranks 1, 2 did not join the world of 3 workers within 1 s.*SAGELET_WORLD_JOIN_TIMEOUT"
    with pytest.raises(WorkerLost, match=says):
        store.meet(opened, first, peers.this_worker(0, "127.0.0.1"))


def test_a_rank_0_that_is_never_up_is_named() -> None:
    with pytest.raises(WorkerLost, match=r"rank 0 at 127\.0\.0\.1:\d+ did not join the world"):
        store.open_store(layout(1, quiet_port(), seconds=1), agent_serves=False)


def test_a_worker_waits_for_rank_0_and_meets_it() -> None:
    port = quiet_port()
    met: dict[int, list[peers.Peer]] = {}
    kept: list[Any] = []

    def work(rank: int) -> None:
        own = layout(rank, port)
        # Until both have met: the store is gone with the last who holds that of rank 0.
        opened = store.open_store(own, agent_serves=False)
        kept.append(opened)
        met[rank] = store.meet(opened, own, peers.this_worker(rank, "127.0.0.1"))

    second = threading.Thread(target=work, args=(1,), daemon=True)
    second.start()
    work(0)
    second.join(60)
    assert met[0] == met[1]
    assert [(peer.rank, peer.pid) for peer in met[0]] == [(0, os.getpid()), (1, os.getpid())]


def test_attempts_of_a_launcher_that_keeps_the_store_do_not_meet_each_other(tmp_path: Path) -> None:
    first = layout(0, quiet_port(), seconds=1)
    opened = store.open_store(first, agent_serves=False)
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(first.port)}
    again = read_layout(environ | {"TORCHELASTIC_RESTART_COUNT": "1"})
    assert again is not None
    later = store.open_store(again, agent_serves=True)
    opened.set("left", "by the first attempt")
    assert opened.check(["left"])
    assert not later.check(["left"])


def test_jobs_at_one_port_do_not_meet_each_other() -> None:
    first = layout(0, quiet_port(), seconds=1)
    opened = store.open_store(replace(first, job="a"), agent_serves=False)
    other = store.open_store(replace(first, job="b", rank=1), agent_serves=False)
    store_of_a = replace(first, job="a", rank=1)
    opened.set("worker/0", peers.this_worker(0, "127.0.0.1").encode())
    assert store.open_store(store_of_a, agent_serves=False).check(["worker/0"])
    assert not other.check(["worker/0"])


def test_ddps_buckets_of_a_backward_pass_that_failed_are_dropped(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reduced: list[list[float]] = []

    def reduce(_group: object, _kind: str, tensors: list[Any], _scale: float) -> list[Any]:
        reduced.append([tensor.item() for tensor in tensors])
        return tensors

    monkeypatch.setattr(ddp.calls, "reduce", reduce)
    hooks: list[Any] = []
    model = SimpleNamespace(_comm_hooks=[], register_comm_hook=lambda _state, hook: hooks.append(hook))
    one = ddp.OneReduce(SimpleNamespace(size=2))

    def bucket(value: float, *, last: bool) -> Any:
        made = SimpleNamespace(buffer=lambda: torch.tensor(value), is_last=lambda: last)
        return hooks[0](None, made)

    one.begin(model)
    bucket(1.0, last=False)  # the script catches an error of the rest of this backward pass
    one.begin(model)
    first, second = bucket(2.0, last=False), bucket(3.0, last=True)
    assert reduced == [[2.0, 3.0]]
    assert (first.wait().item(), second.wait().item()) == (2.0, 3.0)
    assert len(hooks) == 1


def test_smddp_on_gpus_waits_as_long_as_the_script_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RUNTIME / "sagelet_runtime" / "native"))
    smddp = importlib.import_module("smdistributed.dataparallel.torch.torch_smddp")
    made: list[Any] = []

    class FakeNCCL:
        """torch without CUDA has none."""

        Options = SimpleNamespace

        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)

    monkeypatch.setattr(smddp.dist, "ProcessGroupNCCL", FakeNCCL, raising=False)
    monkeypatch.setattr(smddp.torch.cuda, "is_available", lambda: True)
    smddp._make("store", 1, 2, timedelta(seconds=7))
    (*where, options) = made[0]
    assert (where, options._timeout) == (["store", 1, 2], timedelta(seconds=7))


class Unpicklable:
    """The second time: the first worker is started, and the next cannot be."""

    times = 0

    def __reduce__(self) -> tuple[type[Any], tuple[()]]:
        Unpicklable.times += 1
        if Unpicklable.times > 1:
            raise ValueError("cannot be pickled")
        return object, ()


def test_workers_of_which_one_cannot_be_started_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="cannot be pickled"):
        spawn.start(print, (Unpicklable(),), 2, daemon=False, method="spawn")
    assert Unpicklable.times == 2
    assert not multiprocessing.active_children()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("dtype", "wire"),
    [("bfloat16", "float32"), ("float16", "float32"), ("int16", "int32"), ("float64", "float64"), ("bool", "uint8")],
)
def test_types_travel_as(torch: Any, dtype: str, wire: str) -> None:
    assert plan("sum", getattr(torch, dtype), 1.0).wire == getattr(torch, wire)


@pytest.mark.parametrize(
    ("reduce_type", "dtype", "scale", "says"),
    [
        ("sum", "complex64", 1.0, "torch.complex64 cannot be reduced"),
        ("sum", "int64", 0.5, "scale=0.5 needs tensors of a floating-point type"),
        ("or", "float32", 1.0, "'or' is for integers and bool"),
    ],
)
def test_what_cannot_be_reduced(torch: Any, reduce_type: str, dtype: str, scale: float, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        plan(reduce_type, getattr(torch, dtype), scale)


def test_scratch_memory_is_used_again(torch: Any) -> None:
    scratch = Scratch()
    first = scratch.take(torch.float32, 0, 100)
    assert scratch.take(torch.float32, 0, 40).data_ptr() == first.data_ptr()
    assert scratch.take(torch.float32, 1, 40).data_ptr() != first.data_ptr()
    assert scratch.take(torch.float32, 0, 200).numel() == 200

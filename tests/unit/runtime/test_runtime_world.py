"""A worker's rank from its launcher's variables, how it finds the others, and which of them are gone."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from sagelet_runtime.collectives import address, counters, peers
from sagelet_runtime.collectives import suppress_gloo_output as quiet
from sagelet_runtime.collectives.layout import LayoutError, read_layout
from sagelet_runtime.collectives.peers import Peer
from sagelet_runtime.collectives.reduction import buckets
from sagelet_runtime.collectives.store import name_ranks
from sagelet_runtime.torch_xla.spawn import worker_count, worker_environment
from support.training_host import poll

LAUNCHED = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "algo-1",
    "MASTER_PORT": "7777",
}


def test_worker_of_two_hosts() -> None:
    layout = read_layout(LAUNCHED)
    assert layout is not None
    assert (layout.rank, layout.size, layout.local_rank, layout.local_size, layout.host) == (5, 8, 1, 4, 1)
    assert (layout.address, layout.port, layout.hosts) == ("algo-1", 7777, 2)
    assert layout.collective_timeout == timedelta(seconds=1800)


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": ""}, {"WORLD_SIZE": "1", "RANK": "0"}])
def test_a_worker_that_is_alone_has_no_layout(environ: dict[str, str]) -> None:
    assert read_layout(environ) is None


def test_without_local_variables_all_workers_are_on_one_host() -> None:
    layout = read_layout({name: LAUNCHED[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")})
    assert layout is not None
    assert (layout.local_rank, layout.local_size, layout.host, layout.hosts) == (5, 8, 0, 1)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two is not a whole number"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 is not a number of workers"),
        ({"RANK": ""}, "RANK= is not a whole number"),
        ({"RANK": "8"}, "RANK=8 is not between 0 and 7"),
        ({"LOCAL_RANK": "4"}, "LOCAL_RANK=4 is not between 0 and 3"),
        ({"LOCAL_WORLD_SIZE": "9"}, "LOCAL_WORLD_SIZE=9 does not fit WORLD_SIZE=8"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT=http is not a whole number"),
        ({"SAGELET_COLLECTIVE_TIMEOUT": "0"}, "SAGELET_COLLECTIVE_TIMEOUT=0 is not a number of seconds above 0"),
        ({"SAGELET_WORLD_JOIN_TIMEOUT": "1h"}, "SAGELET_WORLD_JOIN_TIMEOUT=1h is not a whole number"),
    ],
)
def test_variables_that_do_not_fit(changed: dict[str, str], says: str) -> None:
    with pytest.raises(LayoutError, match=says):
        read_layout(LAUNCHED | changed)


@pytest.mark.parametrize("missing", ["RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_variables_that_are_missing(missing: str) -> None:
    environ = {name: value for name, value in LAUNCHED.items() if name != missing}
    with pytest.raises(LayoutError, match=f"{missing} is not set, and WORLD_SIZE=8 workers need it"):
        read_layout(environ)


def test_address_on_one_machine_is_loopback() -> None:
    assert address.own_address("127.0.0.1", 7777, spans_hosts=False) == "127.0.0.1"
    assert address.is_loopback(address.own_address("localhost", 7777, spans_hosts=True))


def test_a_master_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(OSError, match=r"MASTER_ADDR=no-such-host\.invalid cannot be resolved"):
        address.own_address("no-such-host.invalid", 7777, spans_hosts=True)


def test_a_hosts_own_name_for_loopback_is_of_no_use_to_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Debian's /etc/hosts: 127.0.1.1 algo-1."""
    reached = {"algo-1": "127.0.1.1", "192.0.2.1": "10.0.0.5"}
    monkeypatch.setattr(address, "source_address", lambda host, port: reached[host])
    assert address.own_address("algo-1", 7777, spans_hosts=True) == "10.0.0.5"
    assert address.own_address("algo-1", 7777, spans_hosts=False) == "127.0.1.1"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([10, 20, 30], [[0, 1, 2]]),
        ([60, 60, 30], [[0], [1, 2]]),
        ([500, 1, 500], [[0], [1], [2]]),
        ([0, 100, 0], [[0, 1, 2]]),
    ],
)
def test_buckets_hold_tensors_in_order_up_to_a_limit(sizes: list[int], expected: list[list[int]]) -> None:
    assert buckets(sizes, limit=100) == expected


def peer(rank: int, pid: int, at: str = "10.0.0.1", machine: str | None = None) -> Peer:
    return Peer(rank, "algo-1", pid, machine or peers.machine_id(), at)


def test_a_peer_is_what_it_was_before_the_store() -> None:
    one = peers.this_worker(3, "10.0.0.4")
    assert Peer.decode(one.encode().encode()) == one
    assert one.pid == os.getpid()


def test_ended_peers_are_those_whose_process_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    own, gone, elsewhere = peer(0, os.getpid()), peer(1, child.pid), peer(2, child.pid, machine="another")
    assert peers.ended([own, gone, elsewhere], own, patience=0) == [gone]
    assert peers.ended([own, peer(1, os.getppid())], own, patience=0) == []


def test_a_zombie_is_gone(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not peers.is_alive(child.pid)
    child.wait()


def test_peers_at_the_address_of_gloos_message() -> None:
    all_peers = [peer(0, 1), peer(1, 2, "10.0.0.2"), peer(2, 3, "10.0.0.2")]
    message = "[pair.cc:547] Connection closed by peer [10.0.0.2]:4321"
    assert peers.at_address(all_peers, message) == all_peers[1:]
    assert peers.at_address(all_peers, "something else") == []


def test_ranks_in_messages() -> None:
    assert [name_ranks([3]), name_ranks([1, 2])] == ["rank 3", "ranks 1, 2"]


def test_gloos_line_is_left_out_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    gloo = b"[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\n"
    print("before")
    with quiet.without_gloo_lines():
        print("from Python")
        os.write(1, b"half a line, " + gloo + b"[Gloo] of the script's own\n")
    print("after")
    written = capfd.readouterr().out
    assert "before\n" in written
    assert "half a line, [Gloo] of the script's own\n" in written
    assert "from Python\n" in written
    assert written.endswith("after\n")
    assert "connected peer ranks" not in written


def test_what_is_printed_meanwhile_is_passed_on_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    """gloo may connect for as long as another worker takes, and this one be killed before."""
    seen = ""

    def comes(text: str) -> None:
        def look() -> bool:
            nonlocal seen
            seen += capfd.readouterr().out
            return text in seen

        poll(look, text)

    child = [sys.executable, "-c", "input(); print('of a child')"]
    with quiet.without_gloo_lines():
        print("[Gloo] of the script's own", flush=True)
        comes("of the script's own\n")
        process = subprocess.Popen(child, stdin=subprocess.PIPE)
        os.write(1, b"no line feed")
    comes("no line feed")
    process.communicate(b"\n", timeout=60)
    comes("of a child\n")


def test_figures_add_up() -> None:
    before = counters.figures()
    with counters.recording(100):
        pass
    with pytest.raises(RuntimeError), counters.recording(50):
        raise RuntimeError
    after = counters.figures()
    assert (after.count - before.count, after.bytes - before.bytes) == (1, 100)
    assert after.seconds >= before.seconds


@pytest.mark.parametrize(
    ("nprocs", "environ", "expected"),
    [
        (2, {"GPU_NUM_DEVICES": "4"}, 2),
        (None, {"GPU_NUM_DEVICES": "4", "CPU_NUM_DEVICES": "3"}, 4),
        (None, {"CPU_NUM_DEVICES": "3"}, 3),
        (None, {}, 1),
    ],
)
def test_number_of_workers_to_spawn(nprocs: int | None, environ: dict[str, str], expected: int) -> None:
    assert worker_count(nprocs, environ) == expected


@pytest.mark.parametrize(("nprocs", "says"), [(0, "nprocs=0"), (None, "GPU_NUM_DEVICES=all")])
def test_number_that_is_none(nprocs: int | None, says: str) -> None:
    with pytest.raises(ValueError, match=f"{says} is not a number of workers"):
        worker_count(nprocs, {"GPU_NUM_DEVICES": "all"})


def test_a_spawned_workers_variables_are_there_only_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with worker_environment(rank=1, count=2, port=4000):
        layout = read_layout(os.environ)
        assert layout is not None
        assert (layout.rank, layout.size, layout.local_rank, layout.port) == (1, 2, 1, 4000)
    assert os.environ["LOCAL_RANK"] == "0"
    assert "WORLD_SIZE" not in os.environ

"""Leases of MASTER_PORTs."""

import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.runtimes import ports
from sagelet_engine.runtimes.ports import PortLeases, candidates, is_free


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that another program has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def all_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda _port: True)


def all_begin_with(monkeypatch: pytest.MonkeyPatch, found: Iterable[int]) -> None:
    """As jobs whose ids have one hash."""
    kept = list(found)
    monkeypatch.setattr(ports, "candidates", lambda _job: iter(kept))


@pytest.mark.usefixtures("all_free")
def test_jobs_that_begin_with_one_port_get_different_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_begin_with(monkeypatch, range(20_000, 20_020, 2))
    leases = PortLeases(tmp_path)
    found: list[int] = []
    threads = [threading.Thread(target=lambda job=job: found.append(leases.lease(f"job-{job}"))) for job in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(found) == list(range(20_000, 20_016, 2))


@pytest.mark.usefixtures("all_free")
def test_a_restarted_server_knows_whose_port_is_whose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_begin_with(monkeypatch, (20_000, 20_002))
    before = PortLeases(tmp_path).lease("job/1")
    after = PortLeases(tmp_path)
    assert after.lease("job/1") == before == 20_000
    assert after.lease("job/2") == 20_002
    with pytest.raises(RuntimeUnavailable, match="no port from 20000"):
        after.lease("job/3")
    after.release("job/1")
    after.release("job/1")
    assert after.lease("job/3") == 20_000


def test_a_port_of_another_program_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listening: int
) -> None:
    assert not is_free(listening)
    monkeypatch.setattr(ports, "is_free", lambda port: port < 21_000 and port != 20_003)
    all_begin_with(monkeypatch, (21_000, 20_002, 20_004))
    assert PortLeases(tmp_path).lease("job") == 20_004


def test_every_port_may_be_a_jobs() -> None:
    every = list(candidates("job"))
    assert sorted(every) == list(range(20_000, 32_766, 2))
    assert every != list(candidates("another"))

"""Thousands of histories of the whole engine, each a function of its seed: docs/reliability.md, Simulation.

`SAGELET_SEED=N` lives one of them; `SAGELET_TEST_HISTORIES=N` as many as one likes.
"""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from support.histories.files import open_files
from support.histories.history import Failed, run_all
from support.histories.mutants import MUTANTS
from support.histories.schedule import Crashed, Life, Schedule, Stuck
from support.mistakes import found_by_its_effect

HISTORIES = int(os.environ.get("SAGELET_TEST_HISTORIES", "2000"))
ONE = os.environ.get("SAGELET_SEED")
#: Seeds of one test.
CHUNK = 250
#: In which each of the mistakes has to be found.
MUTANT_HISTORIES = 800


def chunks() -> Iterator[range]:
    if ONE is not None:
        yield range(int(ONE), int(ONE) + 1)
        return
    for first in range(0, HISTORIES, CHUNK):
        yield range(first, min(first + CHUNK, HISTORIES))


@pytest.mark.parametrize("seeds", [*chunks()], ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_every_history_keeps_the_rules(seeds: range) -> None:
    assert sum(1 for _ in run_all(seeds)) == len(seeds)


def digests(seeds: range) -> list[str]:
    return [hashlib.sha256(trace.encode()).hexdigest() for _, trace in run_all(seeds)]


def test_the_same_seed_is_the_same_history_in_any_process() -> None:
    seeds = range(12)
    program = "from reliability.test_simulation import digests; print('\\n'.join(digests(range(12))))"
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    first = digests(seeds)
    opened = open_files()
    assert first == digests(seeds) == other.stdout.split()
    assert open_files() == opened, "processes that died have left files open"
    assert len(set(first)) == len(seeds)


def test_threads_that_wait_for_each_other_are_found() -> None:
    schedule = Schedule(0)
    with pytest.raises(Stuck, match="every thread waits"):
        schedule.run("main", lambda: schedule.park())


def test_a_thread_of_another_test_sleeps_as_ever() -> None:
    """It may run on in this process, with modules whose `time` is the history's."""
    schedule, failures = Schedule(0), []

    def sleep() -> None:
        try:
            schedule.sleep(0.001)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    thread.join()
    assert failures == []


def test_time_passes_only_when_all_wait() -> None:
    schedule = Schedule(0)
    seen: list[tuple[str, int]] = []

    def sleeper(name: str, seconds: float) -> None:
        schedule.sleep(seconds)
        seen.append((name, schedule.now))

    def main() -> None:
        schedule.spawn("late", lambda: sleeper("late", 5), None)
        schedule.spawn("early", lambda: sleeper("early", 2), None)
        schedule.sleep(10)

    schedule.run("main", main)
    assert seen == [("early", 2000), ("late", 5000)]


def test_a_dead_life_does_nothing_more() -> None:
    schedule = Schedule(0)
    life = Life(1)
    did: list[str] = []

    def worker() -> None:
        try:
            while True:
                schedule.sleep(1)
                did.append("worked")
        finally:
            schedule.step()
            did.append("went on after its death")

    def main() -> None:
        schedule.spawn("worker", worker, life)
        schedule.sleep(2.5)
        schedule.kill(life)
        with pytest.raises(Crashed):
            schedule.visit(life, lambda: did.append("visited"))
        schedule.sleep(5)

    schedule.run("main", main)
    assert did == ["worked", "worked"]


@pytest.mark.parametrize("mistake", MUTANTS if ONE is None else [])
def test_a_mistake_in_the_engine_is_found(mistake: str) -> None:
    with MUTANTS[mistake](), pytest.raises(Failed, match=r"Repeat it: SAGELET_SEED=\d+") as found:
        for _ in run_all(range(MUTANT_HISTORIES)):
            pass
    found_by_its_effect(found.value)

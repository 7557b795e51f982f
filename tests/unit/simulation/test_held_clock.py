"""A clock that a test holds goes on for the test only."""

import math
import threading

from sagelet_engine.simulation.clock import SimulatedClock
from support.world import until


def asleep(clock: SimulatedClock, seconds: float, worker: object | None) -> threading.Thread:
    thread = threading.Thread(target=clock.sleep, args=(seconds, worker), daemon=True)
    thread.start()
    until(lambda: not math.isinf(clock.next_wake_ms()))
    return thread


def test_a_function_whose_host_has_ended_moves_no_held_clock() -> None:
    """A function that was killed may go on, and sleep: `job.sleep`, and the wait for its end."""
    clock, host = SimulatedClock(0), object()
    clock.begin(host)
    clock.end(host)
    asleep(clock, 3600, host)
    with clock.held():
        assert not clock.turn_to(3_600_000)
        assert clock.now_ms() == 0
    assert clock.turn_to(3_600_000)


def test_a_test_that_sleeps_moves_a_held_clock_as_far() -> None:
    clock = SimulatedClock(0)
    thread = asleep(clock, 60, None)
    with clock.held():
        assert not clock.turn_to(60_001)
        assert clock.turn_to(60_000)
    thread.join(30)
    assert not thread.is_alive()

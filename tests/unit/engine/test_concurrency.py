"""Who computes: what cannot keep a place, who comes next, and who waits for whom. Counts and orders, no times."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from sagelet_engine.base import concurrency
from sagelet_engine.base.concurrency import ConcurrencyLimit, TooBusy, pause
from support.server import until


class Threads:
    """Threads that wait within `taken` until the test lets them go."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self._leave = threading.Event()
        self._all: list[threading.Thread] = []

    def begin(self, work: Callable[[], None]) -> None:
        self._all.append(threading.Thread(target=work, daemon=True))
        self._all[-1].start()

    def wait(self, limit: ConcurrencyLimit, name: str, account: str = "") -> None:
        """Takes a place and keeps on waiting in it, whatever the rules say."""

        def work() -> None:
            with limit.taken(account):
                self.inside.append(name)
                self._leave.wait()

        self.begin(work)

    def end(self) -> None:
        self._leave.set()
        for thread in self._all:
            thread.join(120)
            assert not thread.is_alive()


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads()
    yield made
    made.end()


@pytest.fixture
def no_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "LEASE_SECONDS", 3600.0)


def waiting(limit: ConcurrencyLimit) -> int:
    return sum(len(line) for line in limit._waiting.values())


@pytest.mark.usefixtures("no_lease_ends")
def test_so_many_at_once_and_another_while_one_is_away(threads: Threads) -> None:
    limit = ConcurrencyLimit(2)
    come_back = threading.Event()

    def write() -> None:
        with limit.taken():
            threads.inside.append("writes")
            with limit.away():
                come_back.wait()
            threads.inside.append("wrote")

    threads.begin(write)
    until(lambda: threads.inside == ["writes"])
    for name in "abc":
        threads.wait(limit, name)
    until(lambda: (waiting(limit), len(threads.inside)) == (1, 3))
    # Who has begun goes on: it waits for a place no longer than PATIENCE_SECONDS.
    come_back.set()
    until(lambda: "wrote" in threads.inside)
    assert waiting(limit) == 1


def test_whoever_has_no_place_waits_for_none() -> None:
    limit = ConcurrencyLimit(1)
    with limit.away(), limit.taken():
        pass
    with limit.taken():
        pass


def test_an_error_gives_the_place_back() -> None:
    limit = ConcurrencyLimit(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"), limit.taken(), limit.away():
            raise ValueError("x")
    with limit.taken():
        assert len(limit._holders) == 1
    assert not limit._holders


def test_nothing_that_waits_keeps_a_place(threads: Threads) -> None:
    """Whatever the holders wait for: a lock, a disk, Docker. They say nothing, and others compute."""
    limit = ConcurrencyLimit(2)
    for name in "abcdef":
        threads.wait(limit, name)
    until(lambda: len(threads.inside) == 6)
    with limit.taken():
        pass
    assert not waiting(limit)


def test_an_account_whose_requests_wait_stops_no_other(threads: Threads) -> None:
    limit = ConcurrencyLimit(2)
    for number in range(concurrency.MOST_OVERDUE + 20):
        threads.wait(limit, f"a{number}", "a")
    until(lambda: limit._overdue["a"] == concurrency.MOST_OVERDUE)
    with limit.taken("b"):
        assert waiting(limit) == 20
    until(lambda: len(threads.inside) == concurrency.MOST_OVERDUE)


def test_leases_that_end_one_by_one_let_no_more_in(monkeypatch: pytest.MonkeyPatch, threads: Threads) -> None:
    now = 0.0
    monkeypatch.setattr(concurrency, "time", SimpleNamespace(monotonic=lambda: now))
    limit = ConcurrencyLimit(2)
    for number in range(concurrency.MOST_OVERDUE + 20):
        threads.wait(limit, f"a{number}", "a")
        until(lambda number=number: len(threads.inside) + waiting(limit) == number + 1)
        # Each begins half a lease after the one before.
        now += concurrency.LEASE_SECONDS / 2
    for _ in range(4 * concurrency.MOST_OVERDUE):
        now += concurrency.LEASE_SECONDS / 2
        with limit.taken("b"):
            pass
    assert waiting(limit) == 20


def test_requests_that_may_have_no_place_do_not_slow_who_computes_long(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = ConcurrencyLimit(2)
    for number in range(concurrency.MOST_OVERDUE + 1):
        threads.wait(limit, f"a{number}", "a")
    until(lambda: (limit._overdue["a"], waiting(limit)) == (concurrency.MOST_OVERDUE, 1))
    monkeypatch.setattr(concurrency, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(concurrency, "PATIENCE_SECONDS", 3600.0)
    done = threading.Event()

    def long() -> None:
        with limit.taken("b"):
            pause()
            done.set()

    threads.begin(long)
    until(done.is_set)


@pytest.mark.usefixtures("no_lease_ends")
def test_an_interruption_leaves_nothing_in_the_line(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = ConcurrencyLimit(1)
    threads.wait(limit, "a")
    until(lambda: threads.inside == ["a"])
    monkeypatch.setattr(concurrency, "SLICE_SECONDS", 0.0)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrency._Turn, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt), limit.taken():
        pass
    assert (waiting(limit), limit._keeper) == (0, None)
    monkeypatch.setattr(limit, "_number", 2)
    with pytest.raises(KeyboardInterrupt), limit.taken():
        pause()
    assert (len(limit._pausing), len(limit._holders)) == (0, 1)


def test_a_request_that_waits_for_ever_is_refused(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = ConcurrencyLimit(2)
    for number in range(concurrency.MOST_OVERDUE + 1):
        threads.wait(limit, f"a{number}", "a")
    until(lambda: limit._overdue["a"] == concurrency.MOST_OVERDUE)
    monkeypatch.setattr(concurrency, "MOST_WAITING_SECONDS", 0.05)
    with pytest.raises(TooBusy, match="account a"), limit.taken("a"):
        pass
    with limit.taken("b"):
        pass


@pytest.mark.usefixtures("no_lease_ends")
def test_accounts_take_turns() -> None:
    limit, order, threads = ConcurrencyLimit(1), list[str](), Threads()

    def work(account: str) -> Callable[[], None]:
        def take() -> None:
            with limit.taken(account):
                order.append(account)

        return take

    with limit.taken("x"):
        for count, account in enumerate("aaaaaabbc", 1):
            threads.begin(work(account))
            until(lambda count=count: waiting(limit) == count)
    threads.end()
    assert order == [*"abcabaaaa"]


@pytest.mark.usefixtures("no_lease_ends")
def test_who_computes_long_lets_all_others_go_first(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(concurrency, "PATIENCE_SECONDS", 3600.0)
    limit, order = ConcurrencyLimit(1), list[str]()
    steps = threading.Semaphore(0)

    def long() -> None:
        with limit.taken():
            for number in range(3):
                steps.acquire()
                pause()
                order.append(f"part {number}")

    def short(name: str) -> Callable[[], None]:
        def work() -> None:
            with limit.taken():
                order.append(name)

        return work

    threads.begin(long)
    until(lambda: len(limit._holders) == 1)
    for count, name in enumerate(("s1", "s2", "s3"), 1):
        threads.begin(short(name))
        until(lambda count=count: waiting(limit) == count)
    steps.release()
    until(lambda: len(order) == 4)
    steps.release()
    steps.release()
    threads.end()
    assert order == ["s1", "s2", "s3", "part 0", "part 1", "part 2"]


def test_who_computes_long_is_not_put_off_for_ever(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "SLICE_SECONDS", 0.0)
    limit = ConcurrencyLimit(1)
    with ExitStack() as stack:
        stack.enter_context(limit.taken())
        # The same thread holds two places, as two requests that never pause would.
        turn = concurrency._Turn(limit, "")
        limit._enter(turn, 60)
        limit.step_aside(turn)
        assert turn.began is not None
        limit._leave(turn)


def test_a_pause_outside_of_a_limit_does_nothing() -> None:
    pause()

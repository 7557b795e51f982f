import threading

from sagelet_engine.base.concurrency import ConcurrencyLimit
from support.server import until


def test_so_many_at_once_and_another_while_one_is_away() -> None:
    limit = ConcurrencyLimit(2)
    inside: list[str] = []
    leave, come_back = threading.Event(), threading.Event()

    def compute(name: str) -> None:
        with limit.taken():
            inside.append(name)
            leave.wait()

    def write() -> None:
        with limit.taken():
            inside.append("writes")
            with limit.away():
                come_back.wait()
            inside.append("wrote")

    threads = [threading.Thread(target=write), *(threading.Thread(target=compute, args=(name,)) for name in "abc")]
    threads[0].start()
    until(lambda: inside == ["writes"])
    for thread in threads[1:]:
        thread.start()
    until(lambda: len(inside) == 3)
    come_back.set()
    assert "wrote" not in inside
    leave.set()
    for thread in threads:
        thread.join(120)
    assert sorted(inside) == ["a", "b", "c", "writes", "wrote"]


def test_whoever_has_no_place_waits_for_none() -> None:
    limit = ConcurrencyLimit(1)
    with limit.away(), limit.taken():
        pass
    with limit.taken():
        pass


def test_an_error_gives_the_place_back() -> None:
    limit = ConcurrencyLimit(1)
    for _ in range(2):
        try:
            with limit.taken(), limit.away():
                raise ValueError
        except ValueError:
            pass
    with limit.taken():
        pass

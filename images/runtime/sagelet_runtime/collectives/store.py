"""The store by which the workers find each other. Rank 0 serves it at MASTER_ADDR:MASTER_PORT."""

import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from sagelet_runtime.base.say import say
from sagelet_runtime.collectives.errors import WorkerLost, WorldError
from sagelet_runtime.collectives.layout import JOIN_TIMEOUT, Layout
from sagelet_runtime.collectives.peers import Peer

#: Seconds between two lines about workers that are still missing.
_REMIND = 60.0
#: A value that no key is ever set to.
_NOBODY = "sagelet: not set"


def open_store(layout: Layout, agent_serves: bool) -> Any:
    """Opens the store, under a prefix of the job, so that the script may use the same port for its own groups.

    A worker that reaches another job's store finds none of its peers there. `agent_serves`: the launcher's own process
    serves the store (torchrun), not rank 0. Raises WorkerLost if nobody serves it in time, and WorldError if another
    program holds the port.
    """
    import torch.distributed as dist

    serves = layout.rank == 0 and not agent_serves
    if not serves:
        _await_server(layout)
    try:
        store = dist.TCPStore(
            layout.address,
            layout.port,
            layout.size,
            is_master=serves,
            timeout=layout.join_timeout,
            wait_for_workers=False,
            # torch's own init_process_group may use this port, too, and then shares the server.
            multi_tenant=True,
        )
    except RuntimeError as error:
        place = f"MASTER_ADDR={layout.address}, MASTER_PORT={layout.port}"
        raise WorldError(
            f"rank {layout.rank} cannot {'serve' if serves else 'reach'} the store ({place}): {error}"
        ) from None
    return dist.PrefixStore(f"sagelet/{layout.job}/{layout.attempt}", store)


def _await_server(layout: Layout) -> None:
    """Waits until rank 0 listens. torch's client would fill the log with warnings meanwhile."""

    def reachable() -> bool:
        try:
            socket.create_connection((layout.address, layout.port), timeout=5).close()
        except OSError:
            return False
        return True

    missing = f"rank 0 at {layout.address}:{layout.port}"
    if not _poll(reachable, lambda: missing, layout.join_timeout):
        raise WorkerLost(_too_late(layout, missing))


def meet(store: Any, layout: Layout, own: Peer) -> list[Peer]:
    """Returns all workers by rank, once all have arrived. Raises WorkerLost, which names the missing workers."""
    store.set(_key(own.rank), own.encode())
    absent = [rank for rank in range(layout.size) if rank != own.rank]

    def complete() -> bool:
        absent[:] = [rank for rank in absent if not has(store, _key(rank))]
        return not absent

    if not _poll(complete, lambda: name_ranks(absent), layout.join_timeout):
        raise WorkerLost(_too_late(layout, name_ranks(absent)))
    return [Peer.decode(store.get(_key(rank))) for rank in range(layout.size)]


def has(store: Any, key: str) -> bool:
    """True if a worker has set `key`. Never waits. On torch 2.1, which lacks `check` here, it uses `compare_set`."""
    if hasattr(store, "check"):
        return bool(store.check([key]))
    return bool(store.compare_set(key, _NOBODY, _NOBODY) != _NOBODY.encode())


def _key(rank: int) -> str:
    return f"worker/{rank}"


def name_ranks(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _too_late(layout: Layout, missing: str) -> str:
    seconds = layout.join_timeout.total_seconds()
    return (
        f"{missing} did not join the world of {layout.size} workers within {seconds:.0f} s. See the log of that "
        f"worker; {JOIN_TIMEOUT} sets the seconds to wait."
    )


def _poll(done: Callable[[], bool], missing: Callable[[], str], timeout: timedelta) -> bool:
    """Waits until `done` returns true. False if that does not happen in time."""
    begin = said = time.monotonic()
    pause = 0.01
    while not done():
        now = time.monotonic()
        if now - begin > timeout.total_seconds():
            return False
        if now - said > _REMIND:
            said = now
            say(f"waiting for {missing()}, for {now - begin:.0f} s now")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)
    return True

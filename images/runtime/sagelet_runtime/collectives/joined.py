"""This worker's place among all workers, and its groups. The first collective connects the workers."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from sagelet_runtime.base.say import ranks_line, say
from sagelet_runtime.collectives import peers as peer_list
from sagelet_runtime.collectives.address import own_address
from sagelet_runtime.collectives.errors import WorkerLost, WorldError
from sagelet_runtime.collectives.group import HostGroup
from sagelet_runtime.collectives.layout import COLLECTIVE_TIMEOUT, Layout, own_group
from sagelet_runtime.collectives.peers import Peer
from sagelet_runtime.collectives.store import has, meet, name_ranks, open_store
from sagelet_runtime.collectives.suppress_gloo_output import without_gloo_lines

#: Seconds that a worker whose peer is gone stays silent. Its launcher ends it meanwhile. So the log and FailureReason
#: have the error of the worker that failed, and not those of the workers that waited for it.
SILENCE = "SAGELET_PEER_LOST_SILENCE"
_DEFAULT_SILENCE = 2.0


class World:
    """All workers of a job. A worker opens connections only at its first collective.

    So a data loader's process that imports torch_xla does not become a second worker of the same rank.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.everyone = tuple(range(layout.size))
        self._lock = threading.RLock()
        self._store: Any = None
        self._peers: list[Peer] = []
        self._groups: dict[tuple[int, ...], HostGroup] = {}
        #: The groups in `_groups`, and those that torch.distributed made.
        self._connected: list[HostGroup] = []

    def group(self, ranks: Sequence[int] | None = None) -> HostGroup:
        """Returns the group of `ranks`, which include this worker, or of all workers. Connects on first use."""
        members = tuple(ranks) if ranks is not None else self.everyone
        with self._lock:
            if members not in self._groups:
                self._groups[members] = self._connect(members)
                if members == self.everyone:
                    say(ranks_line("gloo joins the workers, in the place of NCCL", self.layout.rank, self.layout.size))
            return self._groups[members]

    def member_group(self, groups: Sequence[Sequence[int]] | None) -> HostGroup:
        """Returns this worker's group in `groups`, which has the form of `xm`'s collectives. Raises ValueError."""
        return self.group(own_group(groups, self.layout.rank, self.layout.size) if groups else None)

    def adopt(self, store: Any, rank: int, size: int, timeout: timedelta) -> HostGroup:
        """Returns a group that torch.distributed made: `rank` of `size`, on a store of its own."""
        self.group()
        with self._lock:
            ranks = _ranks_of(store, rank, size, self.layout.rank)
            return self._host_group(store, rank, ranks, timeout)

    def _connect(self, members: tuple[int, ...]) -> HostGroup:
        import torch.distributed as dist

        store = self._opened_store()
        name = "all" if members == self.everyone else "-".join(map(str, members))
        rank = members.index(self.layout.rank)
        timeout = self.layout.collective_timeout
        return self._host_group(dist.PrefixStore(f"group/{name}", store), rank, members, timeout)

    def _host_group(self, store: Any, rank: int, ranks: Sequence[int], timeout: timedelta) -> HostGroup:
        gloo = self._gloo(store, rank, len(ranks), timeout)
        group = HostGroup(gloo, ranks, partial(self._explain, timeout))
        self._connected.append(group)
        return group

    def _close(self) -> None:
        """Closes the connections when the interpreter begins to exit. The exit itself takes seconds."""
        # The frames of the error that ends the script refer to gloo's work, which keeps the connections open.
        traceback.clear_frames(getattr(sys, "last_traceback", None))
        for group in self._connected:
            group.close()

    @property
    def store(self) -> Any:
        """The store at which all workers met. None before the first `group`."""
        return self._store

    def _opened_store(self) -> Any:
        if self._store is None:
            layout = self.layout
            store = open_store(layout, os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")
            address = own_address(layout.address, layout.port, layout.hosts > 1)
            self._peers = meet(store, layout, peer_list.this_worker(layout.rank, address))
            self._store = store
            atexit.register(self._close)
        return self._store

    def _gloo(self, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        import torch

        gloo = torch._C._distributed_c10d.ProcessGroupGloo
        options = gloo._Options()
        options._timeout = timeout
        interface = os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
        where = {"interface": interface} if interface else {"hostname": self._own.address}
        with without_gloo_lines():
            options._devices = [gloo.create_device(**where)]
            try:
                return gloo(store, rank, size, options)
            except RuntimeError as error:
                raise self._explain(timeout, "the first collective", error) from None

    @property
    def _own(self) -> Peer:
        return self._peers[self.layout.rank]

    def _explain(self, timeout: timedelta, what: str, error: Exception) -> WorldError:
        """Returns an error that names the worker to blame for gloo's `error` in `what`.

        If the connection broke, it first waits SILENCE seconds, in which the launcher may end this worker.
        """
        message = str(error)
        if "imed out" in message or "imeout" in message:
            return WorkerLost(self._too_late(timeout, what))
        if not any(mark in message for mark in ("onnection", "socket", "roken pipe", "rror")):
            return WorldError(f"{what} failed: {message}")
        gone = peer_list.ended(self._peers, self._own)
        time.sleep(float(os.environ.get(SILENCE, _DEFAULT_SILENCE)))
        if gone:
            who = ", ".join(map(str, gone)) + (" has ended" if len(gone) == 1 else " have ended")
        else:
            others = [peer for peer in self._peers if peer != self._own]
            there = peer_list.at_address(others, message) or others
            who = f"the connection to {' or '.join(map(str, there))} is closed"
        return WorkerLost(f"{who}, and rank {self.layout.rank} waited for it in {what}. See that worker's own error.")

    def _too_late(self, timeout: timedelta, what: str) -> str:
        """Says which workers are late. Each waiting worker leaves a note, so those without a note are late."""
        late = self._without_note(what)
        who = name_ranks(late) if late else "a worker"
        seconds = f"{timeout.total_seconds():.0f} s"
        return (
            f"{who} did not come to {what} within {seconds}, and rank {self.layout.rank} waited for it there. "
            f"Look for a step that only some workers take; {COLLECTIVE_TIMEOUT} sets the seconds to wait."
        )

    def _without_note(self, what: str) -> list[int]:
        try:
            self._store.set(f"late/{self.layout.rank}", what)
            time.sleep(1.0)
            return [rank for rank in self.everyone if not has(self._store, f"late/{rank}")]
        except RuntimeError:
            # Rank 0 serves the store. It does not answer, so it is gone.
            return [0]


def _ranks_of(store: Any, rank: int, size: int, ordinal: int) -> list[int]:
    """Returns the ordinals of a group's members, by rank within the group."""
    store.set(f"sagelet/ordinal/{rank}", str(ordinal))
    return [int(store.get(f"sagelet/ordinal/{other}")) for other in range(size)]

"""The connections that wait for their clients, found by how long they have waited without a look at the others.

Loopback and all other addresses have a half of the places each: of what the other does not use, either takes more. So
no flood from containers, or from another machine, takes the places of programs on this one.
"""

from collections import OrderedDict
from typing import Any

from sagelet_api.local_names import is_loopback


class Waiting:
    """`add` in the order of `last_used`. Not for several threads at once."""

    def __init__(self) -> None:
        #: By whether loopback, and whether the first byte of a request came: within one the longest-waiting is first.
        self._lines: dict[tuple[bool, bool], OrderedDict[Any, None]] = {
            (near, begun): OrderedDict() for near in (True, False) for begun in (True, False)
        }
        self._line_of: dict[Any, OrderedDict[Any, None]] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    def add(self, conn: Any) -> None:
        """Also for one that is there and has begun its request since."""
        self.remove(conn)
        line = self._lines[is_loopback(conn.remote_addr), conn.rfile.has_data()]
        line[conn] = None
        self._line_of[conn] = line

    def remove(self, conn: Any) -> None:
        line = self._line_of.pop(conn, None)
        if line is not None:
            del line[conn]

    def surplus(self) -> Any:
        """Which should go to make room: of those who hold more places, the longest-waiting; None: nothing waits."""
        near = self._count(True) >= self._count(False)
        fronts = [next(iter(self._lines[near, begun])) for begun in (True, False) if self._lines[near, begun]]
        return min(fronts, key=lambda conn: conn.last_used, default=None)

    def expired(self, before: float, *, begun: bool) -> list[Any]:
        """Those that have waited since before a moment. `begun`: those that brought a part of a request."""
        found = []
        for near in (True, False):
            for conn in self._lines[near, begun]:
                if conn.last_used > before:
                    break
                found.append(conn)
        return found

    def _count(self, near: bool) -> int:
        return len(self._lines[near, True]) + len(self._lines[near, False])

"""Lines of sagelet's own for a job's log: what was left out, lost or comes later.

Whatever works beside a job (the sync of checkpoints, the samplers, the followers of output) must not fail it. What it
loses is not for the server's log alone, which the job's owner may never see. So it notes a line here, from any thread,
and the supervisor writes the lines into the job's log.
"""

import threading
from collections import deque
from collections.abc import Callable

#: Lines that one attempt may note, so that a fault that changes its words at each try does not fill the log.
MOST = 50
_MORE = "sagelet: warning: more was left out; the server's log has the rest"

#: Takes a host's name (empty: the first host) and a line.
Note = Callable[[str, str], None]


class JobNotes:
    """The lines of one attempt that are not in the log yet. Each is noted once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: set[tuple[str, str]] = set()
        self._waiting: deque[tuple[str, str]] = deque()

    def add(self, host: str, text: str) -> None:
        """Notes a line. May be called by any thread."""
        with self._guard:
            if (host, text) in self._known or len(self._known) > MOST:
                return
            self._known.add((host, text))
            self._waiting.append((host, text if len(self._known) <= MOST else _MORE))

    def write(self, write: Note) -> None:
        """Calls `write` with each line. A line stays noted until `write` has returned. One thread may call this."""
        while self._waiting:
            write(*self._waiting[0])
            self._waiting.popleft()

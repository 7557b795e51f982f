"""The threads that answer requests. A request that computes without end does not keep the server from ending."""

import logging
import threading
import time

from cheroot.workers import threadpool
from cheroot.workers.threadpool import ThreadPool, WorkerThread

_log = logging.getLogger(__name__)

#: Seconds that the end of a server waits for requests after it has closed their connections for reading.
LAST_S = 8.0


class Workers(ThreadPool):
    """cheroot's pool, whose own `stop` waits for each request without a limit, as does the end of the process."""

    def _spawn_worker(self) -> WorkerThread:
        worker = WorkerThread(self.server)  # type: ignore[no-untyped-call]
        worker.name = f"sagelet-worker-{worker.name}"
        worker.daemon = True
        worker.start()
        return worker

    def stop(self, timeout: float = 5) -> None:
        """Waits `timeout` seconds for requests in work, closes the connections of those that are left, and waits
        LAST_S more.
        """
        # cheroot's stubs leave out what its underscores hide.
        workers = [*self._clear_threads()]  # type: ignore[attr-defined]
        for _ in workers:
            self._queue.put(threadpool._SHUTDOWNREQUEST)  # type: ignore[attr-defined]
        _join(workers, timeout)
        left = [worker for worker in workers if worker.is_alive()]
        for worker in left:
            self._force_close(worker.conn)  # type: ignore[attr-defined]
        _join(left, LAST_S)
        if abandoned := sum(worker.is_alive() for worker in left):
            _log.warning("The server ends while requests are in work: %d", abandoned)


def _join(workers: list[WorkerThread], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for worker in workers:
        if worker is not threading.current_thread():
            worker.join(max(0.0, deadline - time.monotonic()))

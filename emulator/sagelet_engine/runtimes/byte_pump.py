"""Reads a blocking stream in a thread, so that its consumer can wait with a time limit."""

import queue
import threading
from collections.abc import Callable, Iterable
from types import TracebackType

#: Chunks that wait for the consumer; then the thread, and so the sender, waits.
CAPACITY = 64


class BytePump:
    """`chunks` is read until it ends or raises one of `broken`; `interrupt` makes a blocked read return."""

    def __init__(
        self, chunks: Iterable[bytes], interrupt: Callable[[], None], broken: tuple[type[Exception], ...]
    ) -> None:
        self._chunks = chunks
        self._interrupt = interrupt
        self._broken = broken
        self._queue: queue.Queue[bytes | None] = queue.Queue(CAPACITY)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sagelet-log-pump", daemon=True)

    def __enter__(self) -> "BytePump":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._interrupt()
        self._thread.join()

    def read(self, timeout_s: float) -> bytes | None:
        """What has come, at least one chunk unless the time is over (then b""); None at the end."""
        try:
            chunk = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return b""
        gathered = []
        while chunk is not None:
            gathered.append(chunk)
            if len(gathered) == CAPACITY or self._queue.empty():
                break
            chunk = self._queue.get()
        if chunk is None and gathered:
            self._queue.put(None)
        return b"".join(gathered) if gathered else None

    def _run(self) -> None:
        try:
            for chunk in self._chunks:
                if not self._put(chunk):
                    return
        except self._broken:
            pass  # a broken stream is an ended stream: the consumer asks the engine what is true
        finally:
            self._put(None)

    def _put(self, chunk: bytes | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(chunk, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False

"""An error in the script's dataset reaches the script.

torch_xla loads in a thread. Where the dataset raises there, the thread ends, the script's loop sees the end of the
data, and the job goes on to `Completed` with the samples that it had.
"""

import queue
from collections.abc import Iterator
from typing import Any


def install(_torch_xla: Any) -> None:
    from torch_xla.distributed.parallel_loader import ParallelLoader

    original = ParallelLoader._loader_worker

    def _loader_worker(self: Any) -> None:
        self._cpu_loader = Telling(self._cpu_loader, self._exception_queue)
        original(self)

    ParallelLoader._loader_worker = _loader_worker


class Telling:
    """A loader whose error goes into `errors`, of which torch_xla raises in the script."""

    def __init__(self, loader: Any, errors: "queue.Queue[Exception]") -> None:
        self._loader = loader
        self._errors = errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._loader
        except Exception as error:
            self._errors.put(error)

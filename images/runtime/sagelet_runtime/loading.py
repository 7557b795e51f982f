"""An error in the script's dataset reaches the script.

torch_xla loads in a thread. Where the dataset raises there, the thread ends, the script's loop sees the end of the
data, and the job goes on to `Completed` with the samples that it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Of a ParallelLoader: what ended its thread.
_ERRORS = "_sagelet_errors"


def install(_torch_xla: Any) -> None:
    from torch_xla.distributed.parallel_loader import ParallelLoader

    load, next_item = ParallelLoader._loader_worker, ParallelLoader.next_item

    def _loader_worker(self: Any) -> None:
        errors: list[Exception] = []
        setattr(self, _ERRORS, errors)
        self._cpu_loader = Telling(self._cpu_loader, errors)
        load(self)

    def raising(self: Any, device: Any) -> Any:
        item = next_item(self, device)
        # None: nothing comes any more.
        errors: list[Exception] = getattr(self, _ERRORS, [])
        if item is None and errors:
            raise errors.pop()
        return item

    ParallelLoader._loader_worker, ParallelLoader.next_item = _loader_worker, raising


class Telling:
    """A loader whose error goes into `errors`."""

    def __init__(self, loader: Any, errors: list[Exception]) -> None:
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
            self._errors.append(error)

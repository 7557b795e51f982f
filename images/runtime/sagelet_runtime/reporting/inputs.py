"""Measures batches: how long the script waits for each, their shapes, and how many rows it trains on.

A batch counts as trained on when a backward pass follows it. So batches of an evaluation do not count.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.reporting.recorder import Recorder

_DEEPEST = 4


class _Loading(threading.local):
    #: True if this thread loads ahead for an MpDeviceLoader. The script does not wait for it.
    ahead = False


class Batches:
    """Follows the batch that the script is using."""

    def __init__(self, recorder: Recorder, tensor: type) -> None:
        self._recorder = recorder
        self._tensor = tensor
        self._pending: tuple[int, ...] | None = None
        self._loading = _Loading()

    def waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a call that returns the next batch, and measures the wait."""

        @untraced
        def wait(*args: Any, **kwargs: Any) -> Any:
            if self._loading.ahead:
                return original(*args, **kwargs)
            begin = time.perf_counter()
            batch = original(*args, **kwargs)
            self._recorder.steps.waited += time.perf_counter() - begin
            self._hand_out(batch)
            return batch

        return wait

    def ahead(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a prefetching thread's function: batches that it loads do not count as waiting."""

        @untraced
        def load(*args: Any, **kwargs: Any) -> Any:
            self._loading.ahead = True
            return original(*args, **kwargs)

        return load

    def used(self) -> None:
        """Counts the batch as trained on. Called at a backward pass or an optimizer step."""
        shape, self._pending = self._pending, None
        if shape is not None:
            self._recorder.trained_on(shape)

    def _hand_out(self, batch: Any) -> None:
        try:
            if self._pending is not None:
                self._recorder.steps.interruptions += 1
            self._recorder.steps.about_to_begin()
            found = _first(batch, self._tensor)
            self._pending = None if found is None else tuple(found.shape)
        except Exception as error:
            self._recorder.failed(error)


def install(torch: Any, batches: Batches) -> None:
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    iterator.__next__ = batches.waiting(iterator.__next__)
    backward = torch.autograd.backward

    @untraced
    def counted(*args: Any, **kwargs: Any) -> Any:
        batches.used()
        return backward(*args, **kwargs)

    torch.autograd.backward = counted


def install_parallel(batches: Batches) -> None:
    """Patches torch_xla's loaders: threads load from the DataLoader, and the script waits for their queue."""
    from torch_xla.distributed.parallel_loader import ParallelLoader

    ParallelLoader._loader_worker = batches.ahead(ParallelLoader._loader_worker)
    ParallelLoader.next_item = batches.waiting(ParallelLoader.next_item)


def _first(value: Any, tensor: type, depth: int = 0) -> Any:
    """Returns the first tensor in a batch, in any nest that collate functions make. None if there is no tensor."""
    if isinstance(value, tensor):
        return value
    if depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return None
    return next((found for one in value if (found := _first(one, tensor, depth + 1)) is not None), None)

"""Keeps accelerate's state of a loader in step with the script's batch, not with the thread that loads ahead.

On XLA accelerate passes its loader to torch_xla's MpDeviceLoader, whose thread reads up to 24 batches ahead of the
script. From that thread the loader tells accelerate which loader is being read, whether this is the last batch, and how
many of its samples are not padding. So a short loader is finished before the script has its first batch. Then
gather_for_metrics keeps the padding, and gradient accumulation updates at each batch. See
docs/explanation/compiled-training.md.

Here the thread reads a copy of the loader. The copy's changes to its state, and its calls to accelerate, are kept with
each batch. They are applied to the script's loader when the script gets that batch.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawValue
from types import ModuleType
from typing import Any

from sagelet_runtime.base.say import say_for_all
from sagelet_runtime.base.wire import Attributes

#: The module to patch once a script imports it.
MODULE = "accelerate.data_loader"


def install(module: ModuleType) -> None:
    """Patches the loader that accelerate makes on XLA devices. Does nothing if this release has none."""
    wrapper = getattr(module, "MpDeviceLoaderWrapper", None)
    if wrapper is None:
        return
    original = wrapper.__iter__

    @functools.wraps(original)
    def __iter__(self: Any) -> Iterator[Any]:
        loader = self._loader
        if not hasattr(loader, "gradient_state"):
            return iter(original(self))
        one = Pass(loader, module.find_batch_size, _synchronized(module, loader))
        self._loader = one
        try:
            ahead = original(self)
        finally:
            self._loader = loader
        return one.handed_out(ahead)

    wrapper.__iter__ = __iter__


def _synchronized(module: ModuleType, loader: Any) -> Attributes:
    """Makes the workers' random generators equal, as a new pass does. Returns the state in which the loader does not.

    Accelerate before 0.27 does it in the loader, so in torch_xla's thread. There a collective fails or comes too late.
    """
    kinds = getattr(loader, "rng_types", None)
    if not kinds:
        return {}
    module.synchronize_rng_states(kinds, getattr(loader, "synchronized_generator", loader.generator))
    return {"rng_types": None}


@dataclass
class _Change:
    """What a loader changed between two batches."""

    #: New values of its attributes.
    state: Attributes = field(default_factory=dict)
    #: Methods of accelerate's GradientState that it called, with their arguments.
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)


class Pass:
    """One run through a loader. The thread iterates over this object, the script over `handed_out`."""

    def __init__(self, loader: Any, size_of: Callable[[Any], int | None], state: Mapping[str, Any]) -> None:
        """`state`: attributes that differ in the copy."""
        self._loader = loader
        self._size_of = size_of
        self._copy = object.__new__(type(loader))
        self._copy.__dict__.update({**loader.__dict__, **state})
        self._calls: list[tuple[str, tuple[Any, ...]]] = []
        self._copy.__dict__["gradient_state"] = _Recorded(loader.gradient_state, self._calls)
        self._seen = dict(self._copy.__dict__)
        self._counted = _counted(self._copy)
        #: One change for each batch on its way to the script, and one for the end.
        self._changes: deque[_Change] = deque()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._copy:
            if self._counted is not None and getattr(self._copy, "end_of_dataloader", False):
                self._copy.remainder = self._counted(self._size_of(batch))
            self._changes.append(self._change())
            yield batch
        self._changes.append(self._change())

    def handed_out(self, ahead: Iterable[Any]) -> Iterator[Any]:
        """Yields the batches to the script. `ahead`: the batches of this pass from the thread, in their order."""
        for batch in ahead:
            self._apply()
            yield batch
        self._apply()

    def _change(self) -> _Change:
        now = self._copy.__dict__
        state = {name: value for name, value in now.items() if name not in self._seen or self._seen[name] is not value}
        self._seen = dict(now)
        change = _Change(state, self._calls[:])
        self._calls.clear()
        return change

    def _apply(self) -> None:
        """Applies the next change. There is none if the thread ended by an error, which the script gets."""
        if not self._changes:
            return
        change = self._changes.popleft()
        self._loader.__dict__.update(change.state)
        for name, arguments in change.calls:
            mine = [self._loader if argument is self._copy else argument for argument in arguments]
            getattr(self._loader.gradient_state, name)(*mine)


class _Recorded:
    """accelerate's GradientState as the copy sees it. Calls that would change it are kept for later."""

    def __init__(self, state: Any, calls: list[tuple[str, tuple[Any, ...]]]) -> None:
        self._state = state
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("_add_", "_remove_", "_set_")):
            return getattr(self._state, name)
        return lambda *arguments: self._calls.append((name, arguments))


def _counted(loader: Any) -> Callable[[int | None], int] | None:
    """Returns a function that counts the samples of the last batch of all workers that are not padding.

    It takes the size of this worker's batch. It is for datasets without an index, whose length is unknown before their
    end. None for others. Natively accelerate reads such datasets in one process and counts there.
    """
    dataset = loader.dataset
    kinds = {kind.__name__ for kind in type(dataset).__mro__}
    if "IterableDataset" not in kinds or getattr(loader, "_drop_last", False):
        return None
    if "IterableDatasetShard" not in kinds:
        return _size if _is_alone() else None
    if loader.num_workers > 1:
        # Each loading process pads the end of its part, so padding is in the middle of the data, too.
        say_for_all(
            f"num_workers={loader.num_workers} for a dataset without a length: each of these processes fills up its "
            "last batch, so evaluations over several workers count samples twice. num_workers=1 or 0 avoids that"
        )
        return None
    whole = dataset.batch_size * (1 if getattr(dataset, "split_batches", False) else dataset.num_processes)
    if not isinstance(dataset.dataset, _Samples):
        dataset.dataset = _Samples(dataset.dataset)
    samples: _Samples = dataset.dataset
    return lambda _size: samples.seen.value % whole or whole


def _size(size: int | None) -> int:
    """Returns the size, or accelerate's -1 for an unknown one."""
    return -1 if size is None else size


def _is_alone() -> bool:
    import torch_xla.runtime as xr

    return bool(xr.world_size() == 1)


class _Samples:
    """A dataset that counts the samples read from it, in this process or in a loading process (`num_workers`)."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        #: The count. Only one process writes it. It is read at the last batch, when that process is finished.
        self.seen = RawValue("q", 0)

    def __getattr__(self, name: str) -> Any:
        if name == "_dataset":
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        self.seen.value = 0
        for sample in self._dataset:
            self.seen.value += 1
            yield sample

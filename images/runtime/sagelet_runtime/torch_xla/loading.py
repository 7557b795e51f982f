"""Raises errors of the script's dataset in the script.

torch_xla loads in a thread. If the dataset raises there, the thread ends and the script's loop sees the end of the
data. Without this patch the job then ends `Completed` with the samples that it had.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

#: The attribute of a ParallelLoader with the errors that ended its threads.
_ERRORS = "_sagelet_errors"


def install(_torch_xla: Any) -> None:
    from torch_xla.distributed.parallel_loader import ParallelLoader

    install_on(ParallelLoader)


def install_on(parallel_loader: Any) -> None:
    """Patches the class ParallelLoader, of any torch_xla: its attributes have had other names, its methods have not.

    The loader is the first argument. The thread starts before `__init__` returns.
    """
    make, next_item = parallel_loader.__init__, parallel_loader.next_item
    _, loader_name, *_ = inspect.signature(make).parameters

    @functools.wraps(make)
    def telling(self: Any, *args: Any, **kwargs: Any) -> None:
        errors: list[Exception] = []
        setattr(self, _ERRORS, errors)
        if args:
            args = (Telling(args[0], errors), *args[1:])
        else:
            kwargs[loader_name] = Telling(kwargs[loader_name], errors)
        make(self, *args, **kwargs)

    def raising(self: Any, device: Any) -> Any:
        item = next_item(self, device)
        # None means that nothing comes any more.
        errors: list[Exception] = getattr(self, _ERRORS, [])
        if item is None and errors:
            raise errors.pop()
        return item

    parallel_loader.__init__, parallel_loader.next_item = telling, raising


class Telling:
    """Wraps a loader and puts its error into `errors`."""

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

"""torch_xla.utils.utils: what examples of torch_xla call."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ..core.missing import missing

__getattr__ = missing("torch_xla.utils.utils")


class SampleGenerator:
    """Yields the same data `sample_count` times."""

    def __init__(self, data: Any, sample_count: int) -> None:
        self._data = data
        self._sample_count = sample_count
        self._count = 0

    def __iter__(self) -> SampleGenerator:
        return SampleGenerator(self._data, self._sample_count)

    def __len__(self) -> int:
        return self._sample_count

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> Any:
        if self._count >= self._sample_count:
            raise StopIteration
        self._count += 1
        return self._data


def as_list(t: Any) -> Any:
    return t if isinstance(t, (tuple, list)) else [t]


def getenv_as(name: str, type: Callable[[Any], Any], defval: Any = None) -> Any:
    value = os.environ.get(name)
    if value is None:
        return defval
    return type(int(value)) if type is bool else type(value)


def check_env_flag(name: str, default: str = "") -> bool:
    flag = os.environ.get(name, default)
    return flag == "true" or (flag.isdigit() and int(flag) > 0)


def eprint(*args: Any, **kwargs: Any) -> None:
    print(*args, file=sys.stderr, **kwargs)


def timed(fn: Callable[[], Any], msg: str = "", printfn: Callable[[str], Any] = eprint) -> Any:
    began = time.time()
    result = fn()
    printfn(f"{msg}{1000 * (time.time() - began):.3f}ms")
    return result

"""A property that is computed when it is first read. `functools.cached_property` of Python 3.10 and 3.11 holds a lock
meanwhile, one for all instances: whoever computes long, or pauses, stops all others there.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached(Generic[T]):
    """Decorates a method without arguments. Threads that read it at once each compute it, with the same result."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "cached[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> "cached[T] | T":
        if instance is None:
            return self
        # From now on the instance's own value comes before this.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value

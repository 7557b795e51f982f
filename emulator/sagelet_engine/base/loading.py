"""Parts of a server that are loaded when they are first used, so that the server is ready sooner."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: Held while a part, moto, Flask or botocore loads. Two threads that load packages which import each other (moto and
#: Flask import Werkzeug, moto imports botocore, botocore's modules each other) may find a package half loaded.
LOADING = threading.RLock()


class Late(Generic[T]):
    """A part that is made by its first use. `make` imports what the part needs, and returns the part.

    One thread makes it; others wait. If `make` raises, the next use tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []

    def __call__(self) -> T:
        if not self._made:
            with LOADING:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]

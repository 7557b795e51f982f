"""Remembers answers of a function for texts, up to a sum of sizes: a cache of N answers has no bound in bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedMemory(Generic[T]):
    """Calls a function of a text, and answers from memory what was asked lately. Threads may share it.

    What the function raises is not remembered.
    """

    def __init__(self, function: Callable[[str], T], *, most: int, size: Callable[[str], int]) -> None:
        """`most`: the sum of the sizes of the texts whose answers are remembered."""
        self._function = function
        self._most = most
        self._size = size
        self._answers: OrderedDict[str, T] = OrderedDict()
        self._sum = 0
        self._lock = threading.Lock()
        #: The text that was asked for last: for the same object, no letter is compared.
        self._last: tuple[str, T] | None = None

    def __call__(self, text: str) -> T:
        last = self._last
        if last is not None and last[0] is text:
            return last[1]
        answer = self._answer(text)
        self._last = text, answer
        return answer

    def _answer(self, text: str) -> T:
        with self._lock:
            if text in self._answers:
                self._answers.move_to_end(text)
                return self._answers[text]
        answer = self._function(text)
        with self._lock:
            if text not in self._answers:
                self._answers[text] = answer
                self._sum += self._size(text)
            # The newest stays, however large it is: it will be asked for again at once.
            while self._sum > self._most and len(self._answers) > 1:
                oldest, _ = self._answers.popitem(last=False)
                self._sum -= self._size(oldest)
        return answer

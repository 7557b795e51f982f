"""Searches an order of operations in which a sequential S3 would have given each the answer that it got.

This is Wing and Gong's search (1993) with Lowe's memory of what was tried (2017). Take any operation before whose start
no remaining one had ended, let it happen, and go on. Go back if the model would have answered otherwise, or if the
remaining operations were tried from the same state before.
"""

from collections.abc import Sequence

from support.s3_histories.model import State, after
from support.s3_histories.operations import Operation


class NotLinearizable(AssertionError):
    """No order explains the clients' answers."""


def check(operations: Sequence[Operation]) -> list[Operation]:
    """Returns an order that explains all answers. Raises NotLinearizable."""
    search = _Search(sorted(operations, key=lambda one: one.called))
    if not search.run():
        raise NotLinearizable(search.explain())
    return search.order


class _Search:
    def __init__(self, operations: list[Operation]) -> None:
        self._all = operations
        self._place = {operation.number: place for place, operation in enumerate(operations)}
        self._known = sum(1 << place for place, operation in enumerate(operations) if operation.known)
        self._seen: set[tuple[int, frozenset[object]]] = set()
        self.order: list[Operation] = []
        self._longest: tuple[int, list[Operation], State, int] = (-1, [], {}, 0)

    def run(self) -> bool:
        """Searches with an explicit stack, because a history has more operations than Python allows frames."""
        stack: list[tuple[int, State, list[int]]] = [(0, {}, self._candidates(0))]
        while stack:
            done, state, candidates = stack[-1]
            self._note(done, state)
            if done & self._known == self._known:
                return True
            if not candidates:
                stack.pop()
                if self.order:
                    self.order.pop()
                continue
            place = candidates.pop(0)
            following = after(state, self._all[place])
            if following is None:
                continue
            now = done | 1 << place
            seen = (now, frozenset(following.items()))
            if seen in self._seen:
                continue
            self._seen.add(seen)
            self.order.append(self._all[place])
            stack.append((now, following, self._candidates(now)))
        return False

    def _candidates(self, done: int) -> list[int]:
        """Places of operations that may be next; those that end first come first."""
        first_end, found = float("inf"), []
        last_begun = max((self._all[place].called for place in _bits(done)), default=0)
        for place, operation in enumerate(self._all):
            if operation.called > first_end:
                break
            if done >> place & 1:
                continue
            if operation.known:
                first_end = min(first_end, operation.returned)
            waits = operation.after is not None and not done >> self._place[operation.after] & 1
            # One that nobody knows the end of was over before what has happened since began.
            if not waits and operation.returned > last_begun:
                found.append(place)
        found = [place for place in found if self._all[place].called < first_end]
        return sorted(found, key=lambda place: (not self._all[place].known, self._all[place].returned))

    def _note(self, done: int, state: State) -> None:
        count = (done & self._known).bit_count()
        if count > self._longest[0]:
            self._longest = (count, [*self.order], state, done)

    def explain(self) -> str:
        count, order, state, done = self._longest
        stuck = [str(self._all[place]) for place in self._candidates(done)]
        there = [f"{name}: {value}" for name, value in sorted(state.items(), key=str)]
        return "\n".join([
            f"{count} of {self._known.bit_count()} operations can be explained, the last of them",
            *map(str, order[-12:]),
            "then there is", *there, "and none of these can be next", *stuck,
        ])  # fmt: skip


def _bits(done: int) -> list[int]:
    found = []
    while done:
        low = done & -done
        found.append(low.bit_length() - 1)
        done ^= low
    return found

"""Deals objects to hosts: which host gets which objects, in which order. Pure, and standard library only."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffled(items: Sequence[T], seed: int | None, epoch: int) -> Sequence[T]:
    """ShuffleConfig: the same order for the same seed and epoch, on every host and every Python, or None for the order
    in which they come.

    AWS does not document its own generator, so its order is another one.
    """
    if seed is None:
        return items
    order = list(items)
    random.Random(f"{seed}:{epoch}").shuffle(order)
    return order


def dealt(items: Sequence[T], host: int, hosts: int) -> Sequence[T]:
    """ShardedByS3Key: items are dealt out one by one, so that each host has its 1/n. `host` counts from 0."""
    return items[host::hosts]

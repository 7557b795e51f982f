"""Decides which host gets which objects, in which order. Pure, and standard library only."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffled(items: Sequence[T], seed: int | None, epoch: int) -> Sequence[T]:
    """Orders items as ShuffleConfig says: the same order for the same seed and epoch, on every host and every Python.
    Without a seed (None) the order stays.

    AWS does not document its own generator, so its order is another one.
    """
    if seed is None:
        return items
    order = list(items)
    random.Random(f"{seed}:{epoch}").shuffle(order)
    return order


def dealt(items: Sequence[T], host: int, hosts: int) -> Sequence[T]:
    """Returns a host's share for ShardedByS3Key. Items are dealt out one by one, so that each host has its 1/n. `host`
    counts from 0.
    """
    return items[host::hosts]

"""Hundreds of histories of the real object store, each a function of its seed: docs/reliability.md, The object store.

`SAGELET_SEED=N` lives one of them; `SAGELET_TEST_S3_HISTORIES=N` as many as one likes.
"""

import os
from collections.abc import Iterator

import pytest

from support.s3_histories.history import Failed, run_all
from support.s3_histories.mutants import MUTANTS

HISTORIES = int(os.environ.get("SAGELET_TEST_S3_HISTORIES", "400"))
ONE = os.environ.get("SAGELET_SEED")
#: Seeds of one test.
CHUNK = 100
#: In which each of the mistakes has to be found.
MUTANT_HISTORIES = 1000


def chunks() -> Iterator[range]:
    if ONE is not None:
        yield range(int(ONE), int(ONE) + 1)
        return
    for first in range(0, HISTORIES, CHUNK):
        yield range(first, min(first + CHUNK, HISTORIES))


@pytest.mark.parametrize("seeds", [*chunks()], ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_every_history_can_be_explained_and_loses_nothing(seeds: range) -> None:
    assert sum(1 for _ in run_all(seeds)) == len(seeds)


@pytest.mark.parametrize("mistake", MUTANTS if ONE is None else [])
def test_a_mistake_in_the_store_is_found(mistake: str) -> None:
    with MUTANTS[mistake](), pytest.raises(Failed, match=r"Repeat it: SAGELET_SEED=\d+"):
        for _ in run_all(range(MUTANT_HISTORIES)):
            pass

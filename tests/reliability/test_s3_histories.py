"""Hundreds of histories of the real object store, each a function of its seed: docs/reliability.md, The object store.

`SAGELET_SEED=N` lives one of them; `SAGELET_TEST_S3_HISTORIES=N` as many as one likes.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from support.histories.files import open_files
from support.mistakes import found_by_its_effect
from support.s3_histories import linearize
from support.s3_histories.history import Failed, run_all
from support.s3_histories.mutants import FOUND_AT, MUTANTS
from support.s3_histories.operations import Operation

HISTORIES = int(os.environ.get("SAGELET_TEST_S3_HISTORIES", "300"))
ONE = os.environ.get("SAGELET_SEED")
#: Seeds of one test.
CHUNK = 100
#: In which each of the mistakes has to be found.
MUTANT_HISTORIES = 2000
#: The value of a call that got no answer.
UNKNOWN = "?"


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
    mutant, theme = MUTANTS[mistake]
    seeds = sorted(range(MUTANT_HISTORIES), key=lambda seed: seed != FOUND_AT.get(mistake))
    with mutant(), pytest.raises(Failed, match=r"Repeat it: SAGELET_SEED=\d+") as found:
        for _ in run_all(seeds, theme):
            pass
    found_by_its_effect(found.value)


def test_the_same_seed_is_the_same_history() -> None:
    first = [trace for _, trace in run_all(range(8))]
    opened = open_files()
    assert first == [trace for _, trace in run_all(range(8))]
    assert open_files() == opened, "processes that died have left files open"
    assert len(set(first)) == 8


def a_log(*calls: tuple[str, int, int, dict[str, Any], Any]) -> list[Operation]:
    """Kind, when it began and ended, arguments, and the client's answer (UNKNOWN: none)."""
    made = Operation(0, "create_bucket", {"bucket": "b"}, 0, 1, known=True)
    return [
        made,
        *(
            Operation(
                number, kind, {"bucket": "b", "key": "k", **more}, began, ended, known=told != UNKNOWN, value=told
            )
            for number, (kind, began, ended, more, told) in enumerate(calls, 1)
        ),
    ]


def test_what_a_sequential_s3_could_have_done_is_explained() -> None:
    old, new = {"etag": "old"}, {"etag": "new"}
    linearize.check(a_log(("put", 2, 3, old, "old"), ("put", 4, 9, new, "new"), ("get", 5, 6, {}, "new")))
    linearize.check(a_log(("put", 2, 3, old, "old"), ("put", 4, 9, new, "new"), ("get", 5, 6, {}, "old")))
    # Nobody knows what became of the second one.
    for seen in ("old", "new"):
        linearize.check(a_log(("put", 2, 3, old, "old"), ("put", 4, 5, new, UNKNOWN), ("get", 6, 7, {}, seen)))


def test_what_no_sequential_s3_would_have_done_is_found() -> None:
    old, new = {"etag": "old"}, {"etag": "new"}
    lost = a_log(("put", 2, 3, old, "old"), ("put", 4, 5, new, "new"), ("get", 6, 7, {}, "old"))
    back = a_log(
        ("put", 2, 3, old, "old"), ("put", 4, 9, new, "new"), ("get", 5, 6, {}, "new"), ("get", 7, 8, {}, "old")
    )
    # A process that is dead changes nothing any more.
    late = a_log(
        ("put", 2, 3, old, "old"), ("put", 4, 5, new, UNKNOWN), ("get", 6, 7, {}, "old"), ("get", 8, 9, {}, "new")
    )
    for broken in (lost, back, late):
        with pytest.raises(linearize.NotLinearizable, match="can be explained"):
            linearize.check(broken)

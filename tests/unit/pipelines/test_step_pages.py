"""Pages of an execution's steps, read by an index."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from sagelet_engine.model.pipeline import PipelineExecution, PipelineKey, StepRun, StepState, StepStatus
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestration_codecs import PIPELINE_EXECUTION

EXECUTION = PipelineExecution(
    PipelineKey("123456789012", "us-east-1", "Pipe").execution("abcdefghijkl"), "e" * 32, {}, 1000, 1000
)
#: The last of the definition began first.
RUNS = [StepRun(n, f"s{n}", 11 - n, StepState.ENDED, StepStatus.SUCCEEDED, 1000) for n in range(1, 11)]


def pages(store: Store, *, newest_first: bool) -> list[list[str]]:
    kept, found = store.orchestrations.of(PIPELINE_EXECUTION), [[]]
    after: int | None = None
    while page := kept.children_page(EXECUTION.id, after, 4, newest_first=newest_first):
        found.append([run.name for run in page])
        after = page[-1].list_order
    return found[1:]


def test_pages_read_their_own_steps_by_the_index(tmp_path: Path) -> None:
    store = Store(tmp_path / "sagelet.db")
    kept = store.orchestrations.of(PIPELINE_EXECUTION)
    kept.insert(EXECUTION)
    kept.update(EXECUTION, RUNS)
    oldest = [run.name for run in RUNS[::-1]]
    assert pages(store, newest_first=False) == [oldest[:4], oldest[4:8], oldest[8:]]
    assert pages(store, newest_first=True) == [oldest[::-1][:4], oldest[::-1][4:8], oldest[::-1][8:]]
    store.close()
    with closing(sqlite3.connect(tmp_path / "sagelet.db")) as db:
        asked = "SELECT record FROM orchestration_children WHERE orchestration_id = ? AND list_order < ?"
        plan = db.execute(f"EXPLAIN QUERY PLAN {asked} ORDER BY list_order DESC LIMIT 4", ("e", 5)).fetchall()
    assert "orchestration_children_in_order (orchestration_id=? AND list_order<?)" in json.dumps(plan)
    assert "TEMP B-TREE" not in json.dumps(plan)

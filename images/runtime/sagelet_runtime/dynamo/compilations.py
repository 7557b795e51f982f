"""Dynamo's own record of each compilation: graphs, recompilations, and what it could not trace."""

from __future__ import annotations

import os
import re
from typing import Any

from sagelet_runtime.base.wire import CounterGroups, JsonObject
from sagelet_runtime.dynamo import faults

#: Dynamo's module of callbacks, imported with the first compilation, and that of the records.
CALLBACKS, UTILS = "torch._dynamo.callback", "torch._dynamo.utils"
#: Errors that are not faults: Dynamo breaks the graph there, or has nothing to compile, or starts again.
_EXPECTED = frozenset({"Unsupported", "SkipFrame", "SkipCodeRecursiveException"})
_AGAIN = "RestartAnalysis"
#: Dynamo's name of the function that goes on after a break.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)")
#: Reasons kept for the report, and characters of each, at most.
MOST, SHOWN = 16, 200


class Compilations:
    """Adds up the records. Dynamo keeps the last 64, so `read` is called after each compilation."""

    def __init__(self) -> None:
        self.nodes_max = 0
        self.recompiles = 0
        self._reasons: dict[str, int] = {}
        #: Places behind which a graph was ended: how often the rest was compiled.
        self._places: dict[str, int] = {}
        self._last: Any = None

    def read(self, utils: Any) -> None:
        """Adds the records since the last call. `utils`: torch._dynamo.utils."""
        records = list(utils.get_compilation_metrics())
        known = next((at for at, record in enumerate(records) if record is self._last), -1)
        for record in records[known + 1 :]:
            self._add(record)
        self._last = records[-1] if records else self._last

    def document(self, counters: CounterGroups) -> JsonObject:
        """Returns the report's `graph`. `counters`: Dynamo's, by group."""
        told = counters.get("graph_break", {})
        reasons = {_short(reason): count for reason, count in list(told.items())[:MOST]}
        return {
            "nodes_max": self.nodes_max,
            # Dynamo counts no reason for a branch on data, and a place without a rest has no function.
            "breaks": max(len(told), len(self._places)),
            "unique": counters.get("stats", {}).get("unique_graphs", 0),
            "frames": counters.get("frames", {}).get("ok", 0),
            "recompiles": self.recompiles,
            "break_reasons": {**self._places, **reasons},
            "recompile_reasons": dict(self._reasons),
        }

    def _add(self, record: Any) -> None:
        self.nodes_max = max(self.nodes_max, getattr(record, "graph_node_count", None) or 0)
        reason = getattr(record, "recompile_reason", None)
        if reason:
            self.recompiles += 1
            _count(self._reasons, _short(reason))
        resumed = _RESUMED.fullmatch(record.co_name or "")
        if resumed:
            _count(self._places, f"{resumed['function']} ({os.path.basename(record.co_filename)}:{resumed['line']})")
        failed = record.fail_type
        if failed and failed not in _EXPECTED and not failed.endswith(_AGAIN):
            faults.note(_where(record), failed, record.fail_reason or "")


def _count(counts: dict[str, int], text: str) -> None:
    if text in counts or len(counts) < MOST:
        counts[text] = counts.get(text, 0) + 1


def _where(record: Any) -> str:
    """Returns the function and its line. Dynamo does not name the function that it compiles no more, at its limit."""
    if not record.co_filename:
        return "a function"
    return f"{record.co_name} ({os.path.basename(record.co_filename)}:{record.co_firstlineno})"


def _short(reason: str) -> str:
    """Returns the reason's first line."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return (lines[0] if lines else "")[:SHOWN]

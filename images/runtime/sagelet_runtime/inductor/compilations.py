"""Dynamo's own record of each compilation: graphs, recompilations, and what it could not trace."""

from __future__ import annotations

import os
from typing import Any

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.inductor import faults

#: Errors that are no faults: Dynamo breaks the graph there, or has nothing to compile, or starts again.
_EXPECTED = frozenset({"Unsupported", "SkipFrame", "SkipCodeRecursiveException"})
_AGAIN = "RestartAnalysis"
#: Reasons kept for the report, and characters of each, at most.
MOST, SHOWN = 16, 200


class Compilations:
    """Adds up the records. Dynamo keeps the last 64, so `read` is called after each compilation."""

    def __init__(self) -> None:
        self.nodes_max = 0
        self.recompiles = 0
        self._reasons: dict[str, int] = {}
        self._last: Any = None

    def read(self, utils: Any) -> None:
        """Adds the records since the last call. `utils`: torch._dynamo.utils."""
        records = list(utils.get_compilation_metrics())
        known = next((at for at, record in enumerate(records) if record is self._last), -1)
        for record in records[known + 1 :]:
            self._add(record)
        self._last = records[-1] if records else self._last

    def document(self, counters: dict[str, Any]) -> JsonObject:
        """Returns the report's `graph`. `counters`: Dynamo's, by group."""
        breaks = counters.get("graph_break", {})
        reasons = {_short(reason): count for reason, count in list(breaks.items())[:MOST]}
        return {
            "nodes_max": self.nodes_max,
            "breaks": sum(breaks.values()),
            "unique": counters.get("stats", {}).get("unique_graphs", 0),
            "frames": counters.get("frames", {}).get("ok", 0),
            "recompiles": self.recompiles,
            "break_reasons": reasons,
            "recompile_reasons": dict(self._reasons),
        }

    def _add(self, record: Any) -> None:
        self.nodes_max = max(self.nodes_max, getattr(record, "graph_node_count", None) or 0)
        reason = getattr(record, "recompile_reason", None)
        if reason:
            self.recompiles += 1
            text = _short(reason)
            if text in self._reasons or len(self._reasons) < MOST:
                self._reasons[text] = self._reasons.get(text, 0) + 1
        failed = record.fail_type
        if failed and failed not in _EXPECTED and not failed.endswith(_AGAIN):
            where = f"{os.path.basename(record.co_filename or '?')}:{record.co_firstlineno or 0}"
            faults.note(f"{record.co_name or 'a function'} ({where})", failed, record.fail_reason or "")


def _short(reason: str) -> str:
    """Returns the reason's first line."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return (lines[0] if lines else "")[:SHOWN]

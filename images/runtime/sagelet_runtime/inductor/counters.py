"""Turns Dynamo's and Inductor's own counters into figures of the report."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from sagelet_runtime.base.wire import CounterGroups, JsonObject
from sagelet_runtime.dynamo import faults
from sagelet_runtime.dynamo.compilations import UTILS, Compilations
from sagelet_runtime.inductor import cache

OUTPUT = "torch._inductor.output_code"


class Counters:
    def __init__(self) -> None:
        self._compilations = Compilations()
        self.compiles = 0
        self.seconds = 0.0
        self.executions = 0
        self.execute_seconds = 0.0
        #: When the compilation began that runs now, by time.perf_counter and in ms since the epoch. 0 if none runs.
        self._began = 0.0
        self.compiling_since_ms = 0

    def install_callbacks(self, module: Any) -> None:
        module.callback_handler.register_start_callback(self._started)
        module.callback_handler.register_end_callback(self._ended)

    def install_graphs(self, module: Any) -> None:
        """Counts and times the calls of compiled graphs."""
        original = module.CompiledFxGraph.__call__

        def __call__(graph: Any, inputs: Any) -> Any:
            began = time.perf_counter()
            try:
                return original(graph, inputs)
            finally:
                self.executions += 1
                self.execute_seconds += time.perf_counter() - began

        module.CompiledFxGraph.__call__ = __call__

    def busy(self) -> tuple[float, float]:
        """Returns the seconds of compiling and of executing so far."""
        return self.seconds, self.execute_seconds

    def document(self) -> JsonObject:
        self._read()
        found = _found()
        return {
            "compiles": self.compiles,
            "compile_seconds": round(self.seconds, 6),
            "compiling_since_ms": self.compiling_since_ms,
            "cache": cache.figures(os.environ, found),
            "executions": self.executions,
            "execute_seconds": round(self.execute_seconds, 6),
            "fallbacks": faults.noted(),
            "graph": self._compilations.document(found),
        }

    def _started(self, _arguments: Any) -> None:
        self._began, self.compiling_since_ms = time.perf_counter(), time.time_ns() // 1_000_000

    def _ended(self, _arguments: Any) -> None:
        self.compiles += 1
        self.seconds += time.perf_counter() - self._began
        self.compiling_since_ms = 0
        self._read()

    def _read(self) -> None:
        if UTILS in sys.modules:
            self._compilations.read(sys.modules[UTILS])


def _found() -> CounterGroups:
    """Returns Dynamo's counters, by group. Empty before its import."""
    module = sys.modules.get(UTILS)
    return {} if module is None else dict(module.counters)

"""Modules of Transformers under the names of then."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib import abc, machinery
from types import ModuleType

#: Modules that moved, and where to.
MOVED = {
    "transformers.deepspeed": "transformers.integrations.deepspeed",
    "transformers.generation_utils": "transformers.generation.utils",
    "transformers.generation_logits_process": "transformers.generation.logits_process",
    "transformers.generation_stopping_criteria": "transformers.generation.stopping_criteria",
    "transformers.generation_beam_search": "transformers.generation.beam_search",
}


class Moved(abc.MetaPathFinder):
    """Last on sys.meta_path: finds modules under their old names, when nothing else does."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> machinery.ModuleSpec | None:
        return machinery.ModuleSpec(fullname, _Copy(MOVED[fullname])) if fullname in MOVED else None


class _Copy(abc.Loader):
    """A module with the names of another."""

    def __init__(self, source: str) -> None:
        self._source = source

    def exec_module(self, module: ModuleType) -> None:
        source = importlib.import_module(self._source)
        module.__dict__.update({name: value for name, value in vars(source).items() if not name.startswith("__")})

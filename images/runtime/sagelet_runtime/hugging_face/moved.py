"""Finds modules of Transformers under their old names."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib import abc, machinery
from types import ModuleType

#: Modules that moved, and their new names.
MOVED = {
    "transformers.deepspeed": "transformers.integrations.deepspeed",
    "transformers.generation_utils": "transformers.generation.utils",
    "transformers.generation_logits_process": "transformers.generation.logits_process",
    "transformers.generation_stopping_criteria": "transformers.generation.stopping_criteria",
    "transformers.generation_beam_search": "transformers.generation.beam_search",
}


class Moved(abc.MetaPathFinder):
    """Finds modules under their old names. It is last on sys.meta_path, so only if no other finder does."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> machinery.ModuleSpec | None:
        return machinery.ModuleSpec(fullname, _Copy(MOVED[fullname])) if fullname in MOVED else None


class _Copy(abc.Loader):
    """Loads a module with the names of another."""

    def __init__(self, source: str) -> None:
        self._source = source

    def exec_module(self, module: ModuleType) -> None:
        source = importlib.import_module(self._source)
        module.__dict__.update({name: value for name, value in vars(source).items() if not name.startswith("__")})

"""Restores names of datasets 1 and 2: `use_auth_token` (now `token`), `load_metric` (now evaluate.load) and others."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.wire import Arguments

#: Arguments removed in 3.0 and 4.0, together with what they controlled.
_DROPPED = ("task", "ignore_verifications", "trust_remote_code", "use_auth_token")
_LOADERS = ("load_dataset", "load_dataset_builder")


def translated(given: Mapping[str, Any]) -> Arguments:
    """Returns arguments of load_dataset under their current names."""
    found = {name: value for name, value in given.items() if name not in _DROPPED}
    if given.get("use_auth_token") is not None:
        found.setdefault("token", given["use_auth_token"])
    if given.get("ignore_verifications"):
        found.setdefault("verification_mode", "no_checks")
    for name in ("task", "trust_remote_code"):
        if given.get(name):
            say_once(f"{name} of load_dataset was removed from datasets and is left out")
    return found


def install(datasets: Any) -> None:
    """Patches `datasets`. Leaves a script's own module of this name alone, and a release that still has the names."""
    if not hasattr(datasets, "load_dataset") or hasattr(datasets, "load_metric"):
        return
    for name in _LOADERS:
        loader = _with_old_names(getattr(datasets.load, name))
        setattr(datasets.load, name, loader)
        setattr(datasets, name, loader)
    datasets.load_metric = datasets.load.load_metric = load_metric


def load_metric(path: str, config_name: str | None = None, **rest: Any) -> Any:
    """`datasets.load_metric`, removed in 3.0. The package evaluate has the same metrics, from the same server."""
    rest = {name: value for name, value in rest.items() if name not in ("use_auth_token", "revision")}
    return importlib.import_module("evaluate").load(path, config_name, **rest)


def _with_old_names(loader: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(loader)
    def called(*args: Any, **kwargs: Any) -> Any:
        return loader(*args, **translated(kwargs))

    return called

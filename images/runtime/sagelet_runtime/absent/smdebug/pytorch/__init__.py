"""smdebug.pytorch: the hook that scripts register their model with."""

from __future__ import annotations

from typing import Any

from .. import Collection, CollectionKeys, ReductionConfig, SaveConfig, SaveConfigMode, modes

__all__ = [
    "Collection",
    "CollectionKeys",
    "Hook",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "create_hook",
    "del_hook",
    "get_hook",
    "modes",
]


class Hook:
    """Accepts everything that a script gives it, and saves nothing."""

    def __init__(self, out_dir: str | None = None, **settings: Any) -> None:
        self.out_dir = out_dir
        self.settings = settings
        self.mode = modes.GLOBAL
        self._collections: dict[str, Collection] = {}

    @classmethod
    def create_from_json_file(cls, _json_file_path: str | None = None) -> Hook:
        return cls()

    @staticmethod
    def hook_from_config(_json_config_path: str | None = None) -> Hook:
        return Hook()

    def register_module(self, module: Any) -> None:
        """smdebug's hook adds forward hooks here. This one does nothing."""

    def register_hook(self, module: Any) -> None:
        """The name of register_module before smdebug 0.7."""

    def register_loss(self, loss_module: Any) -> None:
        """smdebug's hook saves the loss. This one does nothing."""

    def record_tensor_value(self, tensor_name: str, tensor_value: Any) -> None:
        """smdebug's hook saves the tensor. This one does nothing."""

    def save_tensor(self, tensor_name: str, tensor_value: Any, collections_to_write: Any = None) -> None:
        """smdebug's hook saves the tensor. This one does nothing."""

    def save_scalar(self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None) -> None:
        """smdebug's hook saves the number. This one does nothing."""

    def set_mode(self, mode: modes) -> None:
        self.mode = mode

    def get_collection(self, name: str) -> Collection:
        return self._collections.setdefault(name, Collection(name))

    def get_collections(self) -> dict[str, Collection]:
        return self._collections

    def add_collection(self, collection: Collection) -> None:
        self._collections[collection.name] = collection

    def start_profiling_parameter(self, *_given: Any) -> None:
        """Does nothing: the profiler does not run."""

    def close(self) -> None:
        """Does nothing: no file is open."""


def get_hook(
    json_config_path: str | None = None,  # noqa: ARG001 - part of the name's contract
    create_if_not_exists: bool = False,  # noqa: ARG001 - part of the name's contract
) -> Hook | None:
    """Returns None. AWS's library makes a hook from a configuration file, and sagelet gives no job such a file."""
    return None


def create_hook(*_given: Any, **settings: Any) -> Hook:
    return Hook(**settings)


def del_hook() -> None:
    """Does nothing: no hook is kept."""

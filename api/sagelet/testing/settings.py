"""Settings of a test's server, from plain values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagelet_engine.settings import GpuPolicy, RuntimeChoice, Settings

#: Types that JSON does not have.
_TYPES = {"data": Path, "runtime": RuntimeChoice, "gpus": GpuPolicy, "image_rules": Path}


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Makes settings. Raises SettingsError, and TypeError and ValueError for values that are not settings."""
    converted = {name: _TYPES.get(name, _as_is)(value) for name, value in values.items()}
    if "file_systems" in converted:
        converted["file_systems"] = {name: Path(path) for name, path in converted["file_systems"].items()}
    return Settings(**converted)


def _as_is(value: Any) -> Any:
    return value

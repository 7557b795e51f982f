"""SageMaker's instance types for training: their hardware, and AWS's prices. The data is `catalogue.toml`."""

import sys
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources

from sagelet_engine.base.wire import JsonObject

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class InstanceType:
    """One ml.* type (botocore shape TrainingInstanceType)."""

    name: str
    vcpus: int
    memory_gib: float
    #: GPUs of one instance. 0 for a CPU type.
    gpus: int = 0
    gpu_model: str = ""
    #: Memory of one GPU.
    gpu_memory_gib: int = 0
    #: On-demand price of training with one instance in `prices_region()`. None if it is not known.
    usd_per_hour: float | None = None
    #: The day of the price list. None if no price is known.
    priced_on: date | None = None


@cache
def _data() -> JsonObject:
    data: JsonObject = tomllib.loads(resources.files(__package__).joinpath("catalogue.toml").read_text())
    return data


def prices_as_of() -> date:
    """Returns the day of the price list that the prices are from. A type with another day has its own (`priced_on`)."""
    day: date = _data()["prices_as_of"]
    return day


def prices_region() -> str:
    """Returns the region that the prices are for."""
    region: str = _data()["prices_region"]
    return region


@cache
def _types() -> dict[str, InstanceType]:
    return {name: _instance_type(name, facts) for name, facts in _data()["instances"].items()}


def _instance_type(name: str, facts: JsonObject) -> InstanceType:
    priced_on = prices_as_of() if "usd_per_hour" in facts else None
    return InstanceType(**{"name": name, "priced_on": priced_on, **facts})


def every() -> tuple[InstanceType, ...]:
    """Returns all types, family by family, small to large."""
    return tuple(_types().values())


def find(name: str) -> InstanceType | None:
    """Returns the type of this name, or None if SageMaker has no such type, or it is newer than the catalogue."""
    return _types().get(name)


def gpu_count(instance_type: str) -> int:
    """Returns the GPUs of one instance of an ml.* type. 0 for a CPU type, and for a type that is not in the
    catalogue.
    """
    found = find(instance_type)
    return 0 if found is None else found.gpus

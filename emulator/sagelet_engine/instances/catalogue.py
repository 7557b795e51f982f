"""What SageMaker's instance types have, as far as sagelet needs it."""

import sys
from functools import cache
from importlib import resources

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def _gpus() -> dict[str, int]:
    text = resources.files(__package__).joinpath("catalogue.toml").read_text()
    counts: dict[str, int] = tomllib.loads(text)["gpus"]
    return counts


def gpu_count(instance_type: str) -> int:
    """GPUs of one instance of an ml.* type; 0 for a CPU type."""
    return _gpus().get(instance_type, 0)

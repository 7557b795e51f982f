"""The toolkit's lines before the script's first one: how it is invoked, and with which variables."""

from collections.abc import Mapping
from typing import Any

from sagemaker_training import logging_config

#: The beginning of variables by which sagelet's parts talk to each other. One holds the processor's flags, 900 letters.
_OWN = "SAGELET_"
#: Others that no script reads.
_ALSO = frozenset({"PJRT_DYNAMIC_PLUGINS", "TORCHINDUCTOR_VEC_ISA_OK"})


def hide_internals() -> None:
    """Leaves sagelet's own variables out of the list `Environment variables:`, in which AWS has none of them."""
    original = logging_config.log_script_invocation

    def log_script_invocation(cmd: list[str], env_vars: Mapping[str, str], logger: Any = None) -> None:
        original(cmd, shown(env_vars), logger)

    logging_config.log_script_invocation = log_script_invocation


def shown(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a script may read."""
    return {name: text for name, text in variables.items() if not name.startswith(_OWN) and name not in _ALSO}

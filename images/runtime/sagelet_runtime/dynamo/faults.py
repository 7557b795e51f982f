"""What could not be traced or compiled: it runs as it would without Dynamo, and the log and the report say so."""

from __future__ import annotations

import os
from typing import Any

from sagelet_runtime.base.say import say_once

MODULE = "torch._dynamo.config"
#: The user's own choice whether errors of Dynamo end the script.
SUPPRESS = "TORCHDYNAMO_SUPPRESS_ERRORS"
#: Looks at a model that Dynamo leaves out by default. Without them a parameter that the script unfreezes later gets no
#: gradient, and a hook that it adds later is not called.
UNSAFE = (
    "skip_nnmodule_hook_guards",
    "skip_no_tensor_aliasing_guards_on_parameters",
    "skip_tensor_guards_with_matching_dict_tags",
)
#: Faults kept for the report, at most.
MOST = 16
#: Characters of a fault that are kept.
SHOWN = 300
_noted: dict[str, int] = {}
_INDUCTOR = "Inductor cannot compile a part of the model, which runs natively"
_said = [_INDUCTOR]


def speak_of(text: str) -> None:
    """Sets what the log says of a fault, before the fault itself. By default it is Inductor's."""
    _said[0] = text


def install(config: Any) -> None:
    """Sets Dynamo's switches, so that what it cannot trace runs natively instead of failing the job.

    `torch.compile(fullgraph=True)` of the script still raises. Others let a script trace or export a model, and change
    its model between two calls.
    """
    if SUPPRESS not in os.environ:
        config.suppress_errors = True
    for name in ("error_on_nested_fx_trace", "error_on_nested_jit_trace", *UNSAFE):
        if hasattr(config, name):
            setattr(config, name, False)


def note(what: str, kind: str, reason: str) -> None:
    """Counts a fault and says it once. `kind`: the error's class. The script goes on."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    text = f"{what}: {kind}: {lines[0] if lines else ''}"[:SHOWN]
    if text not in _noted:
        say_once(f"{_said[0]}: {text}")
    if text in _noted or len(_noted) < MOST:
        _noted[text] = _noted.get(text, 0) + 1


def noted() -> dict[str, int]:
    """Returns how often each fault happened."""
    return dict(_noted)

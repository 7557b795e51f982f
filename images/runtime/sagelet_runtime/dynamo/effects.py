"""Which objects of the script the function that Dynamo traces would change: a counter, a list, a generator's place."""

from __future__ import annotations

from typing import Any


def changed() -> str:
    """Returns the name of one in the function's own words, as Dynamo knows it before anything has run. Empty if there
    is none. Dynamo must be tracing: a backend is called then.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslator

    effects = InstructionTranslator.current_tx().output.side_effects
    names = (_name(one) for one in effects.id_to_variable.values() if _is_changed(effects, one))
    return next(filter(None, names), "")


def _is_changed(effects: Any, one: Any) -> bool:
    """True for an object that was there before the call. What the call itself makes has no source."""
    from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew

    is_new = isinstance(one.mutation_type, (AttributeMutationNew, ValueMutationNew))
    return not is_new and bool(effects.is_modified(one))


def _name(one: Any) -> str:
    """Returns the object's place, such as `model.state` or `G['COUNTS']`: Dynamo writes L for locals, G for globals.

    Empty for what is Dynamo's own and has no place, such as the stack of modes, which it puts back.
    """
    from torch._guards import Source

    return "" if one.source is None or type(one.source) is Source else str(one.source.name())

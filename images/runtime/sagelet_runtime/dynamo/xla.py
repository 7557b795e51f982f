"""Traces a model once for XLA, in place of at each step. The job asks for it by SAGELET_XLA_TRACING=once or tiered.

By default torch_xla runs the model's Python at each step to find the compiled program. Here Dynamo takes the forward
pass and AOT autograd the backward pass, and later steps run their programs at once. What is outside of the model is
traced as before, but for the optimizer (`replay`). What Dynamo cannot take is traced as before, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sagelet_runtime.base.import_hook import after
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.dynamo import comparing, effects, faults, gradients, graphs, modules, tiers
from sagelet_runtime.dynamo.compilations import CALLBACKS, UTILS, Compilations
from sagelet_runtime.replay.programs import NoLonger

VARIABLE = "SAGELET_XLA_TRACING"
#: Everything at each step; models at each step, the optimizer once (the default); models at each step until it pays to
#: trace them once; both once from the first step on. The last has two names.
LAZY, AUTO, TIERED, ONCE, DYNAMO = "lazy", "auto", "tiered", "once", "dynamo"


class UnknownTracing(Exception):
    """SAGELET_XLA_TRACING has another value than those that sagelet knows."""

    def __init__(self, value: str) -> None:
        super().__init__(
            f"{VARIABLE} is {value!r} in the job's Environment; use {AUTO!r}, {TIERED!r}, {ONCE!r} or {LAZY!r}"
        )


def is_chosen(environ: Mapping[str, str]) -> bool:
    """True if the job's models are traced once from the first step on. Raises UnknownTracing."""
    return _chosen(environ) in (ONCE, DYNAMO)


def is_tiered(environ: Mapping[str, str]) -> bool:
    """True if the job's models are traced once where that pays. Raises UnknownTracing, and UnknownCount."""
    if _chosen(environ) != TIERED:
        return False
    # Refuses a word that is no number before the script starts.
    tiers.after_of(environ)
    return True


def is_replayed(environ: Mapping[str, str]) -> bool:
    """True if steps of the optimizer and clipping are traced once (`replay`). Raises UnknownTracing."""
    return _chosen(environ) != LAZY


def _chosen(environ: Mapping[str, str]) -> str:
    value = environ.get(VARIABLE, "").strip().lower() or AUTO
    if value not in (LAZY, AUTO, TIERED, ONCE, DYNAMO):
        raise UnknownTracing(environ[VARIABLE])
    return value


def activate() -> None:
    """Installs the hooks of this process."""
    faults.speak_of("Dynamo cannot trace a part of the model, which is traced at each step")
    # A program for each shape, as without Dynamo: XLA has no others.
    after("torch", partial(modules.install, options={"backend": backend, "dynamic": False}))
    after(gradients.MODULE, gradients.install)
    after(gradients.MODULE, gradients.watch)
    after(faults.MODULE, faults.install)
    after(CALLBACKS, _read_each)


def activate_tiers() -> None:
    """Installs the hooks of a process whose models are traced once where that pays. It imports nothing of Dynamo."""
    faults.speak_of("Dynamo cannot trace a part of the model, which is traced at each step")
    of_process.after = tiers.after_of(os.environ)
    after("torch", partial(modules.install_calls, call=of_process.call))
    after(gradients.MODULE, partial(gradients.install, is_wanted=lambda: of_process.is_up))
    after(gradients.MODULE, partial(gradients.watch, seen=of_process.note_backward))
    after(faults.MODULE, faults.install)


def compile_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function under torch.compile. It raises where it is not one graph, or that is not one program."""
    import torch

    compiled: Callable[..., Any] = torch.compile(function, backend=_strict_backend, dynamic=False, fullgraph=True)
    return compiled


#: The models of this process, if they are traced once where that pays.
of_process = tiers.Tiers(compile_once)


def figures() -> JsonObject:
    """Returns the report's figures about tracing: the parts of the model that are traced at each step, and why.

    Empty if the whole model is traced at each step, because the job does not ask for more.
    """
    if is_tiered(os.environ):
        return {"tier": of_process.report.document()}
    if not is_chosen(os.environ):
        return {}
    _read()
    return {"traced_once": True, "untraced": faults.noted()}


_compilations = Compilations()


def _read_each(module: Any) -> None:
    """Reads Dynamo's records after each compilation. They have faults that no backend sees, such as its limits."""
    module.callback_handler.register_end_callback(_read)


def _read(_arguments: Any = None) -> None:
    if UTILS in sys.modules:
        _compilations.read(sys.modules[UTILS])


def backend(graph: Any, inputs: Any) -> Any:
    """The torch.compile backend. Compiles a graph from Dynamo, and later its backward pass."""
    return _compiled_by(_compiled, graph, inputs)


def _strict_backend(graph: Any, inputs: Any) -> Any:
    """The backend for what is compared before it is used. Its calls raise NotOneProgram.

    Raises NotComparable for a function that changes objects of the script: a comparison would change them twice more.
    """
    if changed := effects.changed():
        raise comparing.NotComparable(f"each call changes {changed}")
    return _compiled_by(partial(_compiled, is_strict=True), graph, inputs)


def _compiled_by(compiler: Callable[..., Any], graph: Any, inputs: Any) -> Any:
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config

    # A backward pass that may take its inputs' memory refuses `retain_graph=True`. These programs take none. Each
    # backward pass looks at this setting, too.
    config.donated_buffer = False
    return aot_autograd(fw_compiler=compiler, decompositions=_decompositions())(graph, inputs)


def _decompositions() -> dict[Any, Any]:
    """Returns what AOT autograd traces in place of operations that torch_xla 2.9 computes wrongly or that save less."""
    import torch

    aten = torch.ops.aten
    return {aten.native_dropout.default: _dropout, aten.native_batch_norm_backward.default: _batch_norm_backward}


def _dropout(values: Any, probability: float, train: bool | None) -> tuple[Any, Any]:
    """Draws and computes as torch does without Dynamo. torch_xla's own divides by the probability of a zero."""
    import torch

    if train is False or probability == 0:
        return values.clone(), torch.ones_like(values, dtype=torch.bool)
    if probability == 1:
        return torch.zeros_like(values), torch.zeros_like(values, dtype=torch.bool)
    kept = torch.bernoulli(values.detach(), 1 - probability)
    return values * (kept / (1 - probability)), kept.to(torch.bool)


def _batch_norm_backward(
    gradient: Any, values: Any, weight: Any, mean: Any, variance: Any, *saved: Any, **more: Any
) -> Any:
    """Leaves out the running mean and variance, which gradients in training do not depend on.

    The model's next call changes them. Autograd would then refuse the backward pass of this one.
    """
    import torch

    *_, train, _eps, _mask = saved
    if not train or (mean is None and variance is None):
        return NotImplemented
    backward = torch.ops.aten.native_batch_norm_backward.default
    return backward(gradient, values, weight, None, None, *saved, **more)


def _compiled(graph: Any, _inputs: Any, *, is_strict: bool = False) -> Any:
    """Returns a function that makes the program when it gets tensors, and runs it from then on."""
    _without_aliases(graph)
    program: Callable[[list[Any]], Any] | None = None

    def run(arguments: list[Any]) -> Any:
        nonlocal program
        taken = list(arguments)
        # What only this call needs ends with it. That is AOT autograd's convention for a boxed call.
        arguments.clear()
        if program is None:
            program = _strict_program(graph, taken) if is_strict else _program(graph, taken)
        try:
            return program(taken)
        except NoLonger as reason:
            faults.note("a graph", type(reason).__name__, str(reason))
            program = _as_before(graph)
        return program(taken)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _without_aliases(graph: Any) -> None:
    """Removes aliases, which mean nothing in a graph without updates in place.

    The program of torch_xla 2.9 lacks an output that is an alias of an input.
    """
    import torch

    aten = torch.ops.aten
    for node in graph.graph.nodes:
        if node.target in (aten.alias.default, aten.detach.default):
            node.replace_all_uses_with(node.args[0])
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _program(graph: Any, arguments: list[Any]) -> Callable[[list[Any]], Any]:
    """Returns the program of a graph, or the graph itself if torch_xla cannot make one program of it.

    torch_xla's own backend `openxla` divides a graph that is
    not one program, and then gives its parts each other's inputs (2.9.0, BertForMaskedLM). So it is not used.
    """
    fallbacks = _fallbacks()
    try:
        program = _made(graph, arguments)
    except Exception as error:
        faults.note("a graph", type(error).__name__, _left(fallbacks) or str(error))
        return _as_before(graph)
    # Their results would be constants of the program.
    if left := _left(fallbacks):
        faults.note("a graph", "no such operation in XLA", left)
        return _as_before(graph)
    return program


def _strict_program(graph: Any, arguments: list[Any]) -> Callable[[list[Any]], Any]:
    """Returns the program of a graph. Raises NotOneProgram, and what Dynamo's passes and torch_xla raise."""
    fallbacks = _fallbacks()
    program = _made(graph, arguments)
    if left := _left(fallbacks):
        raise graphs.NotOneProgram(f"no such operation in XLA: {left}")
    return program


def _made(graph: Any, arguments: list[Any]) -> graphs.GraphProgram:
    from torch_xla._dynamo import dynamo_bridge as bridge
    from torch_xla.core import xla_model

    bridge.XLAConstructorMoverPass()(graph.graph)
    graph.recompile()
    graphs.refuse(graph, arguments)
    # The values of running programs have no addresses yet, by which torch_xla tells tensors apart.
    xla_model.wait_device_ops()
    return graphs.GraphProgram(graph.forward, graphs.separated(arguments))


def _as_before(graph: Any) -> Callable[[list[Any]], Any]:
    return lambda arguments: graph.forward(*arguments)


def _left(before: Mapping[str, int]) -> str:
    """Returns the operations that have run on the CPU since."""
    return ", ".join(sorted(name for name, count in _fallbacks().items() if count != before.get(name)))


def _fallbacks() -> dict[str, int]:
    """Returns how often each operation ran on the CPU."""
    from torch_xla.debug import metrics

    return {name: metrics.counter_value(name) for name in metrics.executed_fallback_ops()}

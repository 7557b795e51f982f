"""Lets a job begin with models that are traced at each step, and trace them once where that pays.

The job asks for it by SAGELET_XLA_TRACING=tiered. Dynamo is imported when a model goes up, in the script's own thread.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from sagelet_runtime.base.say import say, say_once
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.dynamo import comparing, graphs, states
from sagelet_runtime.dynamo.worth import Clocks, Worth

#: The number of equal calls after which a model goes up, whatever the clocks say. Not set: where it pays.
AFTER = "SAGELET_XLA_TIERED_AFTER"
#: Equal calls before a model may go up by the clocks.
EQUAL = 8
#: Models of a process, and kinds of calls of a model, that are looked at, at most.
MOST_MODELS, MOST_KINDS = 4, 16
#: A model is traced at each step again after so many calls that fit no program, if every fourth did not.
MOST_BREAKS, SHARE = 8, 4
#: Reasons kept for the report, at most, and characters of each.
MOST_REASONS, SHOWN = 16, 200

#: What looking at a call and running its program need of torch, by module. 2.1 lacks some of it.
NEEDED = {
    "torch": ("get_autocast_dtype", "is_autocast_enabled"),
    "torch.compiler": ("set_stance",),
    "torch._C": ("_current_graph_task_id", "_functorch", "_len_torch_dispatch_stack", "_len_torch_function_stack"),
    "torch._C._functorch": ("peek_interpreter_stack",),
}

#: AOT autograd makes no backward pass that can be differentiated.
TWICE = "the script differentiates gradients (create_graph)"

Call = Callable[..., Any]
Compile = Callable[[Call], Call]


class UnknownCount(Exception):
    """SAGELET_XLA_TIERED_AFTER is no number of calls."""

    def __init__(self, value: str) -> None:
        super().__init__(f"{AFTER} is {value!r} in the job's Environment; use a number of calls from 2 on")


def after_of(environ: Mapping[str, str]) -> int | None:
    """Returns the number of equal calls that the job asks for, or None. Raises UnknownCount."""
    value = environ.get(AFTER, "").strip()
    if not value:
        return None
    if not (value.isascii() and value.isdecimal()) or len(value) > 9 or int(value) < 2:
        raise UnknownCount(environ[AFTER])
    return int(value)


class Tiers:
    """The models of this process."""

    def __init__(self, compile_once: Compile, after: int | None = None) -> None:
        """`compile_once`: torch.compile for XLA, which raises where a function is not one graph."""
        self.compile_once = compile_once
        self.after = after
        #: Seconds of compiling, of the device's work and of waiting for batches. None: not known.
        self.clocks: Callable[[], tuple[float, float, float]] | None = None
        #: Calls of models that are left of the training, where that is known.
        self.left: Callable[[], int | None] = lambda: None
        #: Around a comparison. The script has not asked for what it reads and runs.
        self.unseen: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        #: True if the last call of a model in training ran a program that was traced once.
        self.is_up = False
        #: Backward passes so far.
        self.backwards = 0
        #: True once the script has asked for gradients that can be differentiated.
        self.differentiates = False
        self.worth = Worth()
        #: Training calls so far.
        self.calls = 0
        self.report = Report()
        self._models: weakref.WeakKeyDictionary[Any, _Model] = weakref.WeakKeyDictionary()

    def call(self, original: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls an outermost module. `original`: nn.Module's own call."""
        model = self._of(module) if self._fits and _trains(module) else None
        if model is None:
            return original(module, *args, **kwargs)
        self.calls += 1
        if model.is_watched and self.clocks is not None:
            self.worth.step(Clocks(time.perf_counter(), *self.clocks()))
        return model.call(original, module, args, kwargs)

    @functools.cached_property
    def _fits(self) -> bool:
        """True if this torch has what is needed."""
        names = lacking()
        if names:
            say_stays(self.report, f"this torch lacks {names}")
        return not names

    def note_backward(self, create_graph: bool) -> None:
        """The script begins a backward pass. `create_graph`: its gradients can be differentiated."""
        self.backwards += 1
        self.differentiates = self.differentiates or create_graph

    def _of(self, module: Any) -> _Model | None:
        model = self._models.get(module)
        if model is None and len(self._models) < MOST_MODELS:
            model = self._models[module] = _Model(self, type(module).__name__)
        return model

    def may_go_up(self, equal: int) -> bool:
        """True if a model goes up that was called so often in the same way, and compiled nothing meanwhile."""
        if self.after is not None:
            return equal >= self.after
        judgement = self.worth.judge(self.left()) if equal >= EQUAL else None
        return judgement is not None and judgement.pays


class Report:
    """What the compile report says."""

    def __init__(self) -> None:
        self.at = 0
        self.seconds = 0.0
        self.calls = 0
        self.difference = ""
        self.breaks: dict[str, int] = {}
        self.stayed: dict[str, int] = {}

    def note(self, reasons: dict[str, int], text: str) -> None:
        if text in reasons or len(reasons) < MOST_REASONS:
            reasons[text] = reasons.get(text, 0) + 1

    def document(self) -> JsonObject:
        return {
            "went_up_at": self.at,
            "seconds": round(self.seconds, 3),
            "calls": self.calls,
            "breaks": dict(self.breaks),
            "stayed": dict(self.stayed),
            "difference": self.difference,
        }


class _Model:
    """A model of the script. It holds no reference to the module."""

    def __init__(self, tiers: Tiers, name: str) -> None:
        self._tiers, self._name = tiers, name
        self._kinds: dict[Any, int] = {}
        #: The kind of call that is replayed, and what runs it.
        self._kind: Any = None
        self._program: Call | None = None
        self._code: Any = None
        self._stays = False
        #: The kind whose last traced call changed no attribute of the model.
        self._calm: Any = None
        self._breaks = self._since = 0
        #: Backward passes before its last call.
        self._backwards = -1

    @property
    def is_watched(self) -> bool:
        return self._program is None and not self._stays

    def call(self, original: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._tiers.is_up = False
        is_first, self._backwards = self._tiers.backwards != self._backwards, self._tiers.backwards
        if self._stays:
            return original(module, *args, **kwargs)
        try:
            kind = kind_of(args, kwargs)
        except comparing.NotComparable as reason:
            self._stay(str(reason))
            return original(module, *args, **kwargs)
        if self._program is not None and self._tiers.differentiates:
            self._program = None
            self._stay(TWICE)
        elif self._program is not None:
            return self._replayed(kind, original, module, args, kwargs)
        # An earlier call whose backward pass is to come has saved what a program changes, such as means of batch norm.
        if self._stays or not self._is_ready(kind) or not is_first:
            return original(module, *args, **kwargs)
        if self._calm != kind:
            return self._watched(kind, original, module, args, kwargs)
        self._go_up(kind, original, module, args, kwargs)
        if self._program is None:
            return original(module, *args, **kwargs)
        return self._replayed(kind, original, module, args, kwargs)

    def _is_ready(self, kind: Any) -> bool:
        if self._tiers.differentiates:
            self._stay(TWICE)
            return False
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            return False
        equal = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        return self._tiers.may_go_up(equal)

    def _watched(self, kind: Any, original: Call, module: Any, args: Any, kwargs: Any) -> Any:
        """Traces a call as before, and looks whether the model's own Python changes the model or the arguments."""
        before = self._attributes(module)
        with self._tiers.unseen():
            tensors = comparing.InPlace(module, (args, kwargs))
        output = original(module, *args, **kwargs)
        after = self._attributes(module) if before is not None else None
        if before is None or after is None:
            return output
        changed = before.changed(after)
        if changed:
            self._stay(f"each call changes its attribute {changed}")
        elif tensors.changed():
            self._stay("it changes its arguments or parameters in place")
        self._calm = kind
        return output

    def _attributes(self, module: Any) -> states.Attributes | None:
        try:
            return states.Attributes(module)
        except states.TooLarge as reason:
            self._stay(str(reason))
            return None

    def _go_up(self, kind: Any, original: Call, module: Any, args: Any, kwargs: Any) -> None:
        """Traces the model once, and compares it with the model as it was. On any doubt it stays as it was."""
        began = time.perf_counter()
        if reason := _too_many_workers():
            self._stay(reason)
            return
        try:
            function = _function()
            program = self._tiers.compile_once(function)

            def traced_once() -> Any:
                with _without_repeated_logs():
                    return program(module, *args, **kwargs)

            with self._tiers.unseen():
                comparing.compare(module, (args, kwargs), lambda: original(module, *args, **kwargs), traced_once)
        except comparing.Different as difference:
            self._tiers.report.difference = f"{self._name}: {difference}"[:SHOWN]
            self._stay(f"its results differ if it is traced once: {difference}")
        except comparing.NotComparable as reason:
            self._stay(str(reason))
        except Exception as error:
            # Dynamo and torch_xla raise errors of many classes. The script's own call comes after this, and raises its.
            self._stay(_said(error))
        else:
            self._kind, self._program, self._code = kind, program, function.__code__
            seconds, report = time.perf_counter() - began, self._tiers.report
            report.at = report.at or self._tiers.calls
            report.seconds += seconds
            say(f"{self._name} is traced once from its call {self._tiers.calls} on, which took {seconds:.1f} s")

    def _replayed(self, kind: Any, original: Call, module: Any, args: Any, kwargs: Any) -> Any:
        import torch

        self._since += 1
        if kind != self._kind or self._program is None:
            self._broken("another shape, or other arguments")
            return original(module, *args, **kwargs)
        ran = graphs.GraphProgram.calls
        # Where a check of Dynamo fails, it does not trace anew: the model's own Python runs.
        with torch.compiler.set_stance("eager_on_recompile"):
            output = self._program(module, *args, **kwargs)
        if graphs.GraphProgram.calls == ran:
            self._broken(_failed_check(self._code, {"model": module, "args": args, "kwargs": kwargs}))
            return output
        self._tiers.is_up = True
        self._tiers.report.calls += 1
        return output

    def _broken(self, why: str) -> None:
        self._breaks += 1
        text = f"{self._name}: {why}"[:SHOWN]
        self._tiers.report.note(self._tiers.report.breaks, text)
        say_once(f"traced at this step, not once: {text}")
        if self._breaks >= MOST_BREAKS and self._breaks * SHARE > self._since:
            self._program = None
            self._stay(f"{self._breaks} of {self._since} calls fitted no program")

    def _stay(self, why: str) -> None:
        self._stays = True
        self._kinds.clear()
        say_stays(self._tiers.report, f"{self._name}: {why}")


def say_stays(report: Report, why: str) -> None:
    text = why[:SHOWN]
    report.note(report.stayed, text)
    say_once(f"traced at each step, not once: {text}")


def lacking() -> str:
    """Returns which of the functions in NEEDED are not in this torch. Empty if none."""
    import torch

    names = []
    for module, needed in NEEDED.items():
        place = functools.reduce(lambda one, name: getattr(one, name, None), module.split(".")[1:], torch)
        names += [f"{module}.{name}" for name in needed if not hasattr(place, name)]
    return ", ".join(names)


def _said(error: Exception) -> str:
    """Returns why a model was not traced once: the first line, of what a backend raised if it did."""
    error = getattr(error, "inner_exception", error)
    if isinstance(error, comparing.NotComparable):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def kind_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what two calls of a model must have in common to be the same program. Raises NotComparable."""
    import torch

    parts: list[Any] = [tuple(kwargs), torch.is_autocast_enabled("xla"), torch.get_autocast_dtype("xla")]
    places: dict[int, int] = {}
    for at, one in enumerate(comparing.leaves((args, kwargs))):
        if isinstance(one, torch.Tensor):
            same = places.setdefault(id(one), at)
            parts.append((one.shape, one.dtype, one.device, one.requires_grad, same))
        else:
            parts.append((type(one), one if isinstance(one, (bool, int, float, str)) else None))
    return tuple(parts)


def _trains(module: Any) -> bool:
    """True for a call of a training step in the script's main thread. Others are not looked at."""
    import torch

    return bool(
        module.training
        and torch.is_grad_enabled()
        and threading.current_thread() is threading.main_thread()
        # Within a backward pass, as when a checkpoint computes anew.
        and torch._C._current_graph_task_id() == -1
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def _function() -> FunctionType:
    """Returns a function that calls a model. Its code is another for each model, by which Dynamo keeps programs."""

    def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
        return model._call_impl(*args, **kwargs)

    return FunctionType(forward.__code__.replace(), forward.__globals__)


def _without_repeated_logs() -> Any:
    """Lets Dynamo leave out what Transformers logs once in a process: the calls so far have logged it."""
    from torch._dynamo import config

    methods = (getattr(logging.Logger, name, None) for name in ("warning_once", "info_once"))
    said = {one for one in methods if one is not None}
    return config.patch(ignore_logger_methods={*config.ignore_logger_methods, *said})


def _too_many_workers() -> str:
    """Returns why the workers of a GPU job stay: they would have to go up at the same step. Empty if they need not."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    on_cpus = os.environ.get("PJRT_DEVICE", "CPU").startswith("CPU")
    return "several workers on GPUs" if several and not on_cpus else ""


def _failed_check(code: CodeType, values: dict[str, Any]) -> str:
    """Returns which of Dynamo's checks of a call failed, as it says so itself."""
    from torch._C._dynamo import eval_frame
    from torch._dynamo import guards

    text = "one of Dynamo's checks failed"
    try:
        entries = eval_frame._debug_get_cache_entry_list(code)
        reasons = [guards.get_guard_fail_reason_helper(one.guard_manager, values, None) for one in entries]
    except (AttributeError, TypeError):
        # torch promises none of these functions, which only say why.
        return text
    # "None: " stands for the number of the compilation. What is behind two blanks and # is a line of the script.
    return f"{text}: {reasons[0].strip().partition('  #')[0].removeprefix('None: ').strip()}" if reasons else text

"""Programs that are traced once and then run with their tensors as arguments, by torch_xla's own cache of graphs.

Nothing is donated: a script may hold a clone of a parameter, which shares its memory. So while a step's program runs,
the device holds the new values beside the old ones.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.replay import seeds

#: Programs of a process, at most. A script whose steps always differ is traced from then on.
MOST_PROGRAMS = 64
#: Reasons kept for the report, at most.
MOST_REASONS = 16
#: Characters of a reason that are kept.
SHOWN = 200
#: What programs need, by module. torch_xla 2.1 lacks some of it, and no version promises torch_xla's part.
NEEDED = {
    # Where torch has get_autocast_dtype, is_autocast_enabled takes a device.
    "torch": (
        "get_autocast_dtype",
        "_from_functional_tensor",
        "_functionalize_commit_update",
        "_functionalize_replace",
        "_functionalize_sync",
        "_is_functional_tensor",
    ),
    "torch.autograd.graph": ("increment_version",),
    "torch.compiler": ("is_compiling",),
    "torch_xla.runtime": ("is_spmd",),
    "torch_xla.core.xla_builder": ("create_placeholder_tensor",),
    "torch_xla.utils.buffer_donor_context": ("alias_with_buffer_donor_config",),
}
NATIVE = (
    "_check_tensor_need_materialization",
    "_get_graph_hash",
    "_get_seed_info_id",
    "_get_tensors_xla_device_data_node",
    "_run_cached_graph",
    "_unique_id_for_ir_and_data",
    "_xla_sync_live_tensors",
    "_xla_warm_up_cache",
)
#: What torch_xla's error says, if its cache has the program no more. It then has run nothing.
DROPPED = "Failed to get computation by hash"
#: What torch_xla's error says of a pending argument. It then has run nothing.
PENDING = "can not be a pending ir"
#: What Python raises if a function is not there or takes other arguments. No failed computation raises these.
OTHER_API = (AttributeError, ImportError, TypeError)


class NotReplayed(Exception):
    """This call is traced as torch_xla does it. The message says why, for the report."""


class NoLonger(NotReplayed):
    """This call and all later ones are traced, because torch_xla does not run programs as it should."""


class Program:
    """A function of tensors that was traced for torch_xla once."""

    def __init__(
        self, function: Callable[[list[Any]], Sequence[Any]], arguments: list[Any], *, draws: bool = False
    ) -> None:
        """`arguments`: of the trace, no two of them with the same memory. Later ones have their shapes and dtypes.

        `function` returns the results, which are pending, and no two of them the same. It may change placeholders in
        place. Raises NotReplayed if it draws random numbers, unless `draws` allows it.
        """
        import torch
        import torch_xla
        from torch_xla.utils.buffer_donor_context import alias_with_buffer_donor_config

        native = torch_xla._XLAC
        # Before the call, since a change in place makes another tensor of them.
        places = {memory_of(one): place for place, one in enumerate(arguments)}
        drawing = seeds.Drawing(str(arguments[0].device) if draws and arguments else "")
        with torch.no_grad(), drawing:
            results = list(function(arguments))
        inputs, values = native._get_tensors_xla_device_data_node(results)
        seed = native._get_seed_info_id()
        if seed in inputs and not draws:
            raise NotReplayed("it draws random numbers")
        #: Where a seed is among the program's inputs.
        self._seeds = [place for place, one in enumerate(inputs) if one == seed]
        self._drawing = drawing
        #: Each input of the program: the place of its argument, or None for one of the constants.
        self._places = [places.get(memory_of(value)) for value in values]
        self._constants = [None if place is not None else value for place, value in zip(self._places, values)]
        # With this setting no buffer of a parameter is given to its new value.
        with alias_with_buffer_donor_config():
            self._hash = native._get_graph_hash(results)
            native._xla_warm_up_cache(results, [])

    def run(self, arguments: Sequence[Any], compute: Callable[[Sequence[Any]], None]) -> list[Any]:
        """Returns the results as new tensors. Calls `compute` with the arguments if some are pending.

        torch_xla refuses pending arguments. That costs less than to ask for each argument at each call. Raises NoLonger
        if torch_xla has no such program. Other errors are those of computations, maybe of the script's.
        """
        inputs = [
            constant if place is None else arguments[place] for place, constant in zip(self._places, self._constants)
        ]
        for place in self._seeds:
            inputs[place] = self._drawing.again()
        try:
            return self._run(inputs)
        except RuntimeError as error:
            if PENDING not in str(error):
                raise
        compute(arguments)
        return self._run(inputs)

    def _run(self, inputs: list[Any]) -> list[Any]:
        import torch_xla

        try:
            results: list[Any] = torch_xla._XLAC._run_cached_graph(self._hash, inputs)
        except RuntimeError as error:
            if DROPPED not in str(error):
                raise
            raise NoLonger("torch_xla dropped the program from its cache") from error
        return results


def memory_of(tensor: Any) -> str:
    """Returns the name of the memory of a tensor that is not pending. Clones have that of the tensor until they change.

    torch_xla names a tensor by its graph if it has used it in one, and may know its memory by the id of a clone.
    """
    import torch_xla

    native = torch_xla._XLAC
    _, (value,) = native._get_tensors_xla_device_data_node([tensor])
    name: str = native._unique_id_for_ir_and_data(value)
    return name


def placeholders(like: Sequence[Any]) -> list[Any]:
    """Returns tensors like those (shape and dtype) without values. An operation that needs a value ends the process."""
    from torch_xla.core.xla_builder import create_placeholder_tensor

    return [create_placeholder_tensor(one.shape, one.dtype) for one in like]


class Replays:
    """The programs of this process, and how often they ran and did not."""

    def __init__(self) -> None:
        self._programs: dict[Hashable, Program] = {}
        #: Calls by kind: `steps` and `clips`.
        self._replayed: dict[str, int] = {}
        self._traced: dict[str, int] = {}
        #: Why nothing is replayed any more. Empty while it is.
        self.ended = ""

    def run(
        self, kind: str, key: Hashable, function: Callable[[list[Any]], Sequence[Any]], arguments: Sequence[Any]
    ) -> list[Any]:
        """Returns the results of `function` for these arguments. `key`: all that the program depends on.

        Traces it at the first call with the key. Raises NotReplayed if the limit of programs is reached, and NoLonger
        if torch_xla does not run programs as it should. The arguments are then unchanged.
        """
        with self._ends_if_unusable():
            results = self._program((kind, key), function, arguments).run(arguments, run_pending)
        self._replayed[kind] = self._replayed.get(kind, 0) + 1
        return results

    @contextlib.contextmanager
    def _ends_if_unusable(self) -> Iterator[None]:
        """Ends replaying in this process if torch_xla has other functions than sagelet knows, or dropped a program."""
        try:
            yield
        except OTHER_API as error:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            self.ended = f"torch_xla's functions are not those that sagelet knows: {what}"
            raise NoLonger(self.ended) from error
        except NoLonger as reason:
            self.ended = str(reason)
            raise

    def _program(
        self, key: Hashable, function: Callable[[list[Any]], Sequence[Any]], arguments: Sequence[Any]
    ) -> Program:
        program = self._programs.get(key)
        if program is None:
            if len(self._programs) >= MOST_PROGRAMS:
                raise NotReplayed(f"there are {MOST_PROGRAMS} different programs already")
            program = self._programs[key] = Program(function, placeholders(arguments))
        return program

    def traced(self, what: str, why: NotReplayed) -> None:
        """Counts a call that was traced, and says each reason once."""
        text = f"{what}: {why}"[:SHOWN]
        if text not in self._traced:
            if len(self._traced) >= MOST_REASONS:
                return
            say_once(f"traced at each step, not replayed: {text}")
        self._traced[text] = self._traced.get(text, 0) + 1

    def figures(self) -> JsonObject:
        """Returns the report's figures. Empty if nothing was replayed, nor could have been."""
        if not self._replayed and not self._traced:
            return {}
        counts = {kind: self._replayed.get(kind, 0) for kind in ("steps", "clips")}
        return {**counts, "programs": len(self._programs), "traced": dict(self._traced)}


#: Those of this process.
replays = Replays()


def run_pending(tensors: Sequence[Any]) -> None:
    """Runs what is pending, if one of the tensors is. All at once: the loss shares the graph of its gradients."""
    import torch_xla

    native = torch_xla._XLAC
    if any(native._check_tensor_need_materialization(list(tensors))):
        native._xla_sync_live_tensors(str(tensors[0].device), [], False)


def write(tensors: Sequence[Any], values: Sequence[Any]) -> None:
    """Puts results into the tensors that the script has. Their aliases (`detach`, `state_dict`) see them, too.

    It does what torch's functionalization does for `copy_` in the end, a third of its work. `tensor.data = value` and
    torch_xla's `_replace_xla_tensor` leave the old value to aliases, or to those that are made later.
    """
    import torch

    if not all(map(torch._is_functional_tensor, tensors)):
        with torch.no_grad():
            for tensor, value in zip(tensors, values):
                tensor.copy_(value)
        return
    replace, commit, sync = torch._functionalize_replace, torch._functionalize_commit_update, torch._functionalize_sync
    of_xla = torch._from_functional_tensor
    for tensor, value in zip(tensors, values):
        replace(tensor, of_xla(value))
        commit(tensor)
        sync(tensor)
    torch.autograd.graph.increment_version(tensors)


def signature(*lists: Sequence[Any]) -> tuple[Any, ...]:
    """Returns shapes and dtype of tensors that belong together: parameters, their gradients, their moments.

    Raises NotReplayed for all but plain tensors of one dtype on one XLA device, each of them once.
    """
    import torch

    first = lists[0][0]
    plain, device, dtype = (torch.Tensor, torch.nn.Parameter), first.device, first.dtype
    # Shorter floats are rounded between two programs. Within one XLA may keep what it computes in float32.
    if dtype not in (torch.float32, torch.float64):
        raise NotReplayed(f"tensors of {dtype}")
    shapes = tuple(one.shape for one in lists[0])
    for tensors in lists:
        for kind, layout, where, other in {(type(one), one.layout, one.device, one.dtype) for one in tensors}:
            if kind not in plain or layout is not torch.strided:
                raise NotReplayed(f"a {kind.__name__} of layout {layout}")
            if where != device or other != dtype:
                raise NotReplayed(f"tensors of {dtype} on {device} and of {other} on {where}")
        if tuple(one.shape for one in tensors) != shapes:
            raise NotReplayed("a state of another shape than its parameter")
    if len({id(one) for one in lists[0]}) < len(shapes):
        raise NotReplayed("one tensor twice")
    return dtype, shapes


@functools.cache
def lacking() -> str:
    """Returns which of the functions that programs need are not in this torch and torch_xla. Empty if none."""
    import torch_xla

    names = [f"_XLAC.{name}" for name in NATIVE if not hasattr(torch_xla._XLAC, name)]
    for module, needed in NEEDED.items():
        try:
            there: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not module.startswith(str(error.name)):
                raise
            there = None
        names += [f"{module}.{name}" for name in needed if not hasattr(there, name)]
    return ", ".join(names)


def check_surroundings() -> None:
    """Raises NotReplayed if nothing can be replayed, or where an operation may do something else than it does alone."""
    import torch

    if replays.ended:
        raise NotReplayed(replays.ended)
    if names := lacking():
        raise NotReplayed(f"this torch_xla lacks {names}")
    import torch_xla.runtime as xr

    if torch.is_autocast_enabled("xla"):
        raise NotReplayed("within autocast")
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        raise NotReplayed("within a mode of torch that watches operations")
    if xr.is_spmd():
        raise NotReplayed("SPMD")


def can_replay(parameters: Sequence[Any]) -> bool:
    """True for XLA tensors outside of torch.compile. The first tells for all, `signature` looks at each."""
    import torch

    if not parameters or parameters[0].device.type != "xla":
        return False
    # An old torch lacks this. `check_surroundings` says so.
    return not (hasattr(torch.compiler, "is_compiling") and torch.compiler.is_compiling())

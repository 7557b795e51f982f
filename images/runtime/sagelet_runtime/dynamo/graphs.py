"""A graph of AOT autograd as one program of torch_xla, with calls that do as little as they can.

torch_xla's own bridge makes programs in the same way. Its calls look at each argument anew, and it keeps the tensors of
its tracing alive, which each end of a graph then looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, ClassVar, NamedTuple

from sagelet_runtime.replay.programs import Program, memory_of


class NotOneProgram(Exception):
    """torch_xla cannot make one program of a graph. The message says why, for the report."""


class _Place(NamedTuple):
    """Where an output of a graph comes from."""

    #: The graph's argument, or the program's result, by its number. None: it is `value`, whatever the arguments are.
    argument: int | None = None
    result: int | None = None
    value: Any = None
    #: The graph returns another tensor than that. Both have one value until the script changes one of them.
    copied: bool = False


def refuse(graph: Any, arguments: Sequence[Any]) -> None:
    """Raises NotOneProgram for a graph that changes its inputs, and for other inputs than tensors on XLA."""
    import torch

    if not all(isinstance(one, torch.Tensor) and one.device.type == "xla" for one in arguments):
        raise NotOneProgram("not all inputs are tensors on XLA")
    for node in graph.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            raise NotOneProgram(f"{node.target} changes a tensor in place")


def separated(tensors: Sequence[Any]) -> list[Any]:
    """Returns tensors with the same values, no two of which are one in torch_xla.

    A tensor and its clone are one until one of them changes. A program that is traced from them would take the same
    input for both, also when they differ. Runs what is pending of them.
    """
    import torch_xla

    run_pending(tensors)
    known: set[str] = set()
    apart = []
    for one in tensors:
        name = memory_of(one)
        if name in known:
            # By the host: a clone would share again.
            (copy,) = torch_xla._XLAC._xla_get_cpu_tensors([one.detach()])
            one = copy.to(one.device)
        known.add(name)
        apart.append(one)
    return apart


def run_pending(tensors: Sequence[Any]) -> None:
    """Computes those of the tensors that are pending, and only them."""
    import torch_xla

    native = torch_xla._XLAC
    pending = list(compress(tensors, native._check_tensor_need_materialization(tensors)))
    if pending:
        # `sync_xla_data` lets a value that is updated in place take the memory of the one before. What is not computed
        # yet, such as the loss of an earlier call, may still need that.
        native._xla_sync_multi(pending, devices=[], wait=True, sync_xla_data=False)


class GraphProgram:
    """A graph that was traced for torch_xla once. A call returns the graph's outputs for other arguments."""

    #: Calls of all programs of this process.
    calls: ClassVar[int] = 0

    def __init__(self, forward: Callable[..., Any], arguments: list[Any]) -> None:
        """`arguments`: of the first call. They are not pending and do not share memory."""
        self._outputs: list[_Place] = []
        self._program = Program(lambda tensors: self._trace(forward, tensors), arguments, draws=True)
        self._computes = any(place.result is not None for place in self._outputs)
        #: True if each output is a result of its own, in their order.
        self._plain = self._outputs == [_Place(result=at) for at in range(len(self._outputs))]

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        # Such is the backward pass of an identity. torch_xla has no program without results.
        results = self._program.run(arguments, run_pending) if self._computes else []
        GraphProgram.calls += 1
        return results if self._plain else [_output(place, arguments, results) for place in self._outputs]

    def _trace(self, forward: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
        """Returns the program's results, and notes where each output of the graph comes from."""
        import torch
        import torch_xla

        native = torch_xla._XLAC
        known = {memory_of(one): place for place, one in enumerate(arguments)}
        same = set(map(id, arguments))
        results: dict[Any, Any] = {}
        numbers: dict[Any, int] = {}
        for output in forward(*arguments):
            if not isinstance(output, torch.Tensor):
                place = _Place(value=output)
            elif native._check_tensor_need_materialization([output])[0]:
                key = native._unique_id_for_ir_and_data(output)
                number = numbers.setdefault(key, len(numbers))
                place = _Place(result=number, copied=results.setdefault(key, output) is not output)
            elif (argument := known.get(memory_of(output))) is not None:
                place = _Place(argument=argument, copied=id(output) not in same)
            else:
                place = _Place(value=output.detach().clone(), copied=True)
            self._outputs.append(place)
        return list(results.values())


def _output(place: _Place, arguments: Sequence[Any], results: Sequence[Any]) -> Any:
    if place.result is not None:
        value = results[place.result]
    else:
        value = arguments[place.argument] if place.argument is not None else place.value
    return value.clone() if place.copied else value

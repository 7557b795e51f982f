"""The process group of torch.distributed's backend 'xla'. Import it after torch_xla, whose class it extends."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch_xla.distributed import xla_backend

from sagelet_runtime.base.pairs import paired
from sagelet_runtime.collectives import calls, counters, transfer
from sagelet_runtime.collectives.joined import World


class GlooXlaProcessGroup(xla_backend.ProcessGroupXla):  # type: ignore[misc]
    """A process group over gloo. Every operation is complete when its call returns.

    It is a subclass of torch_xla's group, because torch_xla's `dist.new_group` checks for that class.
    """

    def __init__(self, world: World, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        self.host = world.adopt(store, rank, size, timeout)

    def allreduce(self, tensors: Any, opts: Any) -> Any:
        calls.write(tensors, self._reduced(tensors, opts))
        return done(tensors)

    def allreduce_coalesced(self, tensors: Any, opts: Any) -> Any:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, opts: Any) -> Any:
        reduced = self._reduced(tensors, opts)
        if self.rank() == opts.rootRank:
            calls.write(tensors, reduced)
        return done(tensors)

    def _reduced(self, tensors: Any, opts: Any) -> list[Any]:
        average = opts.reduceOp == torch.distributed.ReduceOp.AVG
        kind = "sum" if average else self._get_reduce_type(opts.reduceOp)
        return calls.reduce(self.host, kind, list(tensors), 1.0 / self.size() if average else 1.0)

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        calls.broadcast(self.host, list(tensors), opts.rootRank)
        return done(tensors)

    def barrier(self, opts: Any = None) -> Any:  # noqa: ARG002 - torch passes it by this name
        self.host.agree("barrier")()
        return done([])

    def _gathered(self, call: str, tensor: Any) -> list[Any]:
        what = calls.describe(call, [tensor])
        return calls.on_host(self.host, what, [tensor], lambda copies: self.host.all_gather(what, copies[0]))

    def allgather(self, outputs: Any, inputs: Any, _opts: Any = None) -> Any:
        for own, tensor in paired(outputs, inputs):
            calls.write(own, self._gathered("all_gather", tensor))
        return done([tensor for own in outputs for tensor in own])

    def allgather_coalesced(self, outputs: Any, inputs: Any, _opts: Any = None) -> Any:
        for position, tensor in enumerate(inputs):
            calls.write([own[position] for own in outputs], self._gathered("all_gather", tensor))
        return done([tensor for own in outputs for tensor in own])

    def _allgather_base(self, output: Any, tensor: Any, _opts: Any = None) -> Any:
        joined = torch.stack(self._gathered("all_gather", tensor))
        calls.write([output], [joined.reshape(output.shape)])
        return done([output])

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        for position, tensor in enumerate(inputs):
            gathered = self._gathered("gather", tensor)
            if self.rank() == opts.rootRank:
                calls.write(outputs[position], gathered)
        return done(outputs)

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        is_root = self.rank() == opts.rootRank
        for position, output in enumerate(outputs):
            # The other workers have no inputs. What they pass in is ignored.
            given = torch.stack(list(inputs[position])) if is_root else torch.stack([output] * self.size())
            calls.broadcast(self.host, [given], opts.rootRank)
            calls.write([output], [given[self.rank()]])
        return done(outputs)

    def _scattered(self, tensor: Any, opts: Any) -> Any:
        """Returns this worker's part, along dimension 0, of the sum."""
        if tensor.shape[0] % self.size():
            raise ValueError(f"{tensor.shape[0]} rows cannot be scattered evenly over {self.size()} workers")
        (reduced,) = self._reduced([tensor], opts)
        return reduced.chunk(self.size())[self.rank()]

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        for output, parts in paired(outputs, inputs):
            calls.write([output], [self._scattered(torch.stack(list(parts)), opts)[0]])
        return done(outputs)

    def reduce_scatter_coalesced(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        return self.reduce_scatter(outputs, inputs, opts)

    def _reduce_scatter_base(self, output: Any, tensor: Any, opts: Any) -> Any:
        rows = tensor.reshape(self.size(), *output.shape)
        calls.write([output], [self._scattered(rows, opts)[0]])
        return done(output)

    def alltoall(self, outputs: Any, inputs: Any, _opts: Any = None) -> Any:
        what = calls.describe("all_to_all", inputs)
        came = calls.on_host(self.host, what, list(inputs), lambda copies: self.host.exchange(what, copies))
        calls.write(outputs, came)
        return done(outputs)

    def alltoall_base(self, output: Any, tensor: Any, sent: Any, received: Any, _opts: Any = None) -> Any:
        if sent or received:
            raise NotImplementedError("all_to_all_single with split sizes; pad the parts to one size")
        parts = list(tensor.chunk(self.size()))
        what = calls.describe("all_to_all", parts)
        came = calls.on_host(self.host, what, parts, lambda copies: self.host.exchange(what, copies))
        calls.write([output], [torch.cat(came)])
        return done(output)

    def send(self, tensors: Any, destination: int, tag: int = 0) -> Any:
        what = f"send to rank {destination}"
        for copy in self._copied(tensors):
            self._point(what, copy, self.host.gloo.send, destination, tag)
        return done(tensors)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        copies = self._copied(tensors)
        what = f"recv from rank {source}"
        for copy in copies:
            self._point(what, copy, self.host.gloo.recv, source, tag)
        calls.write(tensors, transfer.to_device(copies, tensors[0].device))
        return done(tensors)

    def _copied(self, tensors: Any) -> list[Any]:
        transfer.apply_views(tensors)
        transfer.sync(tensors[0].device)
        return transfer.to_host(tensors)

    def _point(self, what: str, copy: Any, call: Callable[..., Any], peer: int, tag: int) -> None:
        with counters.recording(copy.numel() * copy.element_size()):
            self.host.guarded(what, self.host.guarded(what, call, [copy], peer, tag).wait)


def done(result: Any) -> Any:
    """Returns a `Work` that has ended with `result`."""
    future = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)

"""Collectives of a group of workers on tensors in host memory, over gloo."""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from sagelet_runtime.base.pairs import paired
from sagelet_runtime.collectives.errors import WorkersDisagree, WorldError
from sagelet_runtime.collectives.reduction import Scratch, buckets, plan

#: Bytes of a collective's description that workers show each other when they disagree.
_SHOWN = 240


class HostGroup:
    """Ranks that exchange tensors. All of them must call the same methods in the same order, from one thread."""

    def __init__(self, gloo: Any, ranks: Sequence[int], explain: Callable[[str, Exception], WorldError]) -> None:
        """`gloo`: a ProcessGroupGloo. `explain(what, error)` returns the error to raise when gloo fails in `what`."""
        self.gloo = gloo
        #: Ordinals of the world, by rank within the group.
        self.ranks = list(ranks)
        self.rank: int = gloo.rank()
        self.size: int = gloo.size()
        self._explain = explain
        self._scratch = Scratch()
        self._pid = os.getpid()
        #: Questions to the others that have no answer yet.
        self._asked = 0

    def agree(self, what: str) -> Callable[[], None]:
        """Asks the others whether they, too, are at `what`. Call the result before the collective itself.

        The answer comes while this worker computes. Without the question, gloo would end the process without a
        traceback when sizes differ, and would mix up collectives of equal sizes.
        """
        import torch

        if os.getpid() != self._pid:
            raise WorldError(f"{what} was called in a child process of the worker; call it in the worker itself")
        digest = hashlib.blake2b(what.encode(), digest_size=8).digest()
        own = torch.frombuffer(bytearray(digest), dtype=torch.int64)
        seen = [torch.empty_like(own) for _ in range(self.size)]
        work = self.guarded(what, self.gloo.allgather, [seen], [own])
        self._asked += 1

        def check() -> None:
            try:
                self.guarded(what, work.wait)
            finally:
                self._asked -= 1
            if any(not torch.equal(other, own) for other in seen):
                raise WorkersDisagree(self._disagreement(what))

        return check

    def close(self) -> None:
        """Closes the connections, so that workers that wait for this one learn at once that it ends.

        Does nothing while an answer is pending: gloo's destructor would wait, too, until the timeout.
        """
        if self._asked == 0 and os.getpid() == self._pid:
            self.gloo = None

    def _disagreement(self, what: str) -> str:
        import torch

        text = what.encode()[:_SHOWN].ljust(_SHOWN)
        own = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        seen = self._gather_equal(what, own)
        said = [bytes(other.tolist()).decode(errors="replace").strip() for other in seen]
        lines = [f"  rank {rank}: {text}" for rank, text in paired(self.ranks, said)]
        return "\n".join(["the workers called different collectives, so none can run:", *lines])

    def all_reduce(self, what: str, reduce_type: str, tensors: Sequence[Any], scale: float = 1.0) -> list[Any]:
        """Returns reduced copies of the tensors' types and shapes. `scale` is applied in the type that travels.

        May write to `tensors`. All buckets are sent before it waits for the first.
        """
        results: list[Any] = [None] * len(tensors)
        pending: list[tuple[Any, Any, list[int]]] = []
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            how = plan(reduce_type, dtype, scale)
            places = [index for index, tensor in enumerate(tensors) if tensor.dtype == dtype]
            sizes = [tensors[index].numel() * how.wire.itemsize for index in places]
            for bucket in buckets(sizes):
                members = [places[index] for index in bucket]
                flat = self._pack([tensors[index] for index in members], how.wire, len(pending))
                work = self.guarded(what, self.gloo.allreduce, [flat], _reduce_options(how))
                pending.append((work, flat, members))
        for work, flat, members in pending:
            self.guarded(what, work.wait)
            if scale != 1.0:
                flat.mul_(scale)
            self._unpack(flat, members, tensors, results)
        return results

    def _pack(self, tensors: Sequence[Any], wire: Any, number: int) -> Any:
        """Packs the tensors into one flat tensor. A single tensor that travels in its own type is not copied."""
        import torch

        if len(tensors) == 1 and tensors[0].dtype == wire:
            return tensors[0].reshape(-1)
        flat = self._scratch.take(wire, number, sum(tensor.numel() for tensor in tensors))
        torch.cat([tensor.reshape(-1).to(wire) for tensor in tensors], out=flat)
        return flat

    @staticmethod
    def _unpack(flat: Any, members: Sequence[int], tensors: Sequence[Any], results: list[Any]) -> None:
        pieces = flat.split([tensors[index].numel() for index in members])
        for index, piece in paired(members, pieces):
            own = tensors[index]
            # The result goes into the worker's own copy, because the flat buffer is used again in the next step.
            results[index] = own if piece.data_ptr() == own.data_ptr() else own.copy_(piece.view(own.shape))

    def all_gather(self, what: str, tensor: Any) -> list[Any]:
        """Returns every worker's tensor, by rank. All must have the same shape and type."""
        return self._gather_equal(what, tensor)

    def all_gather_bytes(self, what: str, payload: bytes) -> list[bytes]:
        """Returns every worker's payload, by rank. Payloads may have any length."""
        import torch

        lengths = [int(length) for length in self._gather_equal(what, torch.tensor([len(payload)]))]
        if not any(lengths):
            return [b""] * self.size
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        if payload:
            padded[: len(payload)] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
        gathered = self._gather_equal(what, padded)
        return [other[:length].numpy().tobytes() for other, length in paired(gathered, lengths)]

    def _gather_equal(self, what: str, tensor: Any) -> list[Any]:
        import torch

        # Tensors travel as bytes: gloo knows few types, and nothing is computed here.
        own = tensor.contiguous().reshape(-1).view(torch.uint8)
        if not own.numel():
            return [torch.empty_like(tensor) for _ in range(self.size)]
        seen = [torch.empty_like(own) for _ in range(self.size)]
        self.guarded(what, self.guarded(what, self.gloo.allgather, [seen], [own]).wait)
        return [other.view(tensor.dtype).view(tensor.shape) for other in seen]

    def broadcast(self, what: str, tensors: Sequence[Any], root: int) -> None:
        """Writes the tensors of `root`, a rank within the group, into `tensors`."""
        import torch

        options = torch._C._distributed_c10d.BroadcastOptions()
        options.rootRank = root
        flats = [tensor.reshape(-1).view(torch.uint8) for tensor in tensors if tensor.numel()]
        works = [self.guarded(what, self.gloo.broadcast, [flat], options) for flat in flats]
        for work in works:
            self.guarded(what, work.wait)

    def exchange(self, what: str, parts: Sequence[Any]) -> list[Any]:
        """Sends `parts[i]` to rank i. Returns what came, by rank. All parts of all workers have one shape and type."""
        import torch

        own = torch.stack([part.contiguous() for part in parts]).reshape(self.size, -1).view(torch.uint8)
        came = torch.empty_like(own)
        options = torch._C._distributed_c10d.AllToAllOptions()
        if own.numel():
            self.guarded(what, self.guarded(what, self.gloo.alltoall_base, came, own, [], [], options).wait)
        return [piece.view(parts[0].dtype).view(parts[0].shape) for piece in came]

    def guarded(self, what: str, call: Callable[..., Any], *args: Any) -> Any:
        """Returns `call(*args)`. Explains gloo's errors."""
        try:
            return call(*args)
        except WorldError:
            raise
        except RuntimeError as error:
            raise self._explain(what, error) from None


def _reduce_options(how: Any) -> Any:
    import torch

    options = torch._C._distributed_c10d.AllreduceOptions()
    options.reduceOp = how.operation
    return options

"""DistributedDataParallel on XLA: all buckets of a backward pass in one collective.

DDP reduces each bucket as soon as its gradients are there, to overlap with the rest of the backward pass. XLA has only
recorded that pass by then, so a collective per bucket would cut it into as many programs.
"""

from typing import Any

from sagelet_runtime.pairs import paired
from sagelet_runtime.world import calls


def install() -> None:
    import torch

    ddp = torch.nn.parallel.DistributedDataParallel
    original = ddp.__init__

    def init(self: Any, module: Any, *args: Any, **settings: Any) -> None:
        original(self, module, *args, **settings)
        if not hasattr(self, "_comm_hooks"):
            _note_hooks(self)
        if hasattr(self.process_group, "host"):
            reducer = OneReduce(self.process_group.host)
            self.register_forward_pre_hook(lambda model, _inputs: reducer.begin(model))

    ddp.__init__ = init


def _note_hooks(model: Any) -> None:
    """torch 2.1 keeps no list of a model's communication hooks."""
    model._comm_hooks = []
    register = model.register_comm_hook

    def noted(state: object, hook: Any) -> None:
        register(state, hook)
        model._comm_hooks.append((hook, state))

    model.register_comm_hook = noted


class OneReduce:
    """Keeps the buckets until the last one is there."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._waiting: list[tuple[Any, Any]] = []
        self._attached = False

    def begin(self, model: Any) -> None:
        """Before each forward pass. Buckets of a backward pass that raised an error are of no use to the next one.

        The hook comes with the first, so that a communication hook of the script's own comes before it.
        """
        import torch
        from torch.distributed import GradBucket

        self._waiting = []

        # torch looks at the hook's annotations.
        def collect(_state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
            return self._collect(bucket.buffer(), bucket.is_last())

        if not self._attached:
            self._attached = True
            if not model._comm_hooks:
                model.register_comm_hook(None, collect)

    def _collect(self, buffer: Any, is_last: bool) -> Any:
        """A future of the mean of `buffer` over the workers."""
        import torch

        future = torch.futures.Future()
        self._waiting.append((buffer, future))
        if is_last:
            waiting, self._waiting = self._waiting, []
            reduced = calls.reduce(self._group, "sum", [own for own, _ in waiting], 1.0 / self._group.size)
            for (_, pending), tensor in paired(waiting, reduced):
                pending.set_result(tensor)
        return future

"""DistributedDataParallel on XLA: reduces all buckets of a backward pass in one collective.

DDP reduces each bucket as soon as its gradients are ready, to overlap with the rest of the backward pass. XLA has only
recorded that pass by then, so a collective per bucket would cut it into as many programs.
"""

from typing import Any

from sagelet_runtime.base.pairs import paired
from sagelet_runtime.collectives import calls


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
    """Keeps a list of a model's communication hooks, which torch 2.1 does not."""
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
        """Called before each forward pass. Drops buckets of a backward pass that raised an error.

        The hook is registered at the first forward pass. So a communication hook of the script's own, registered
        before, is seen and takes its place.
        """
        import torch
        from torch.distributed import GradBucket

        self._waiting = []

        # torch checks the hook's annotations.
        def collect(_state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
            return self._collect(bucket.buffer(), bucket.is_last())

        if not self._attached:
            self._attached = True
            if not model._comm_hooks:
                model.register_comm_hook(None, collect)

    def _collect(self, buffer: Any, is_last: bool) -> Any:
        """Returns a future of the mean of `buffer` over the workers."""
        import torch

        future = torch.futures.Future()
        self._waiting.append((buffer, future))
        if is_last:
            waiting, self._waiting = self._waiting, []
            reduced = calls.reduce(self._group, "sum", [own for own, _ in waiting], 1.0 / self._group.size)
            for (_, pending), tensor in paired(waiting, reduced):
                pending.set_result(tensor)
        return future

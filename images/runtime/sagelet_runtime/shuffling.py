"""Accelerate on one XLA device shuffles as natively: by torch's own generator.

On XLA it gives a shuffled loader a generator of its own, seeded when the loader is prepared. That keeps workers
together. One worker alone would see other batches than the native training of the same seed.
"""

from __future__ import annotations

import functools
from typing import Any

#: The module to patch once a script imports it.
MODULE = "accelerate.data_loader"


def install(data_loader: Any) -> None:
    original = data_loader.prepare_data_loader

    @functools.wraps(original)
    def prepare_data_loader(dataloader: Any, *args: Any, **settings: Any) -> Any:
        if not _draws_from_torch(dataloader) or not _is_alone_on_xla():
            return original(dataloader, *args, **settings)
        import torch

        drawn = torch.get_rng_state()
        prepared = original(dataloader, *args, **settings)
        torch.set_rng_state(drawn)
        dataloader.generator = dataloader.sampler.generator = None
        # Below the loader of the device there is Accelerate's, and torch's below that.
        inner = prepared._loader
        getattr(inner, "base_dataloader", inner).generator = None
        return prepared

    data_loader.prepare_data_loader = prepare_data_loader


def _draws_from_torch(dataloader: Any) -> bool:
    """Whether it shuffles, with no generator of the script's."""
    from torch.utils.data import RandomSampler

    sampler = getattr(dataloader, "sampler", None)
    return isinstance(sampler, RandomSampler) and sampler.generator is None and dataloader.generator is None


def _is_alone_on_xla() -> bool:
    from accelerate.state import PartialState

    state = PartialState()
    return bool(state.distributed_type == "XLA" and state.num_processes == 1)

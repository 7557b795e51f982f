"""Accelerate shuffles on XLA as natively: by the script's generator, or by torch's own.

On XLA it gives each shuffled loader a generator of its own, seeded when the loader is prepared. A script that seeds the
generator it made would do so in vain, and one worker alone would see other batches than the native training of the
same seed. Several workers without a generator get a common one natively, too, but for the sampler alone: the loader
draws a number for its processes as well, and where it has the same generator the order is another one.
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
        sampler = _shuffles(dataloader)
        if sampler is None or not _is_on_xla():
            return original(dataloader, *args, **settings)
        import torch

        given, of_loader, drawn = sampler.generator, dataloader.generator, torch.get_rng_state()
        prepared = original(dataloader, *args, **settings)
        # Below the loader of the device there is Accelerate's, and torch's below that.
        inner = prepared._loader
        dataloader.generator = getattr(inner, "base_dataloader", inner).generator = of_loader
        if given is None and not _is_alone():
            return prepared
        torch.set_rng_state(drawn)
        sampler.generator = given
        if inner.synchronized_generator is not None:
            inner.synchronized_generator = given
        return prepared

    data_loader.prepare_data_loader = prepare_data_loader


def _shuffles(dataloader: Any) -> Any:
    """The sampler that shuffles; None: nothing does."""
    from torch.utils.data import RandomSampler

    sampler = getattr(dataloader, "sampler", None)
    return sampler if isinstance(sampler, RandomSampler) else None


def _is_on_xla() -> bool:
    from accelerate.state import PartialState

    # Accelerate 0.x calls it TPU.
    return str(getattr(PartialState().distributed_type, "value", "")) in ("XLA", "TPU")


def _is_alone() -> bool:
    from accelerate.state import PartialState

    return bool(PartialState().num_processes == 1)

"""Makes Accelerate shuffle on XLA as it does natively: with the script's generator, or with torch's own.

On XLA it gives each shuffled loader a new generator, seeded when the loader is prepared. Then a script would seed its
own generator in vain, and a single worker would see other batches than native training with the same seed.

Natively, several workers without a generator get a common one, too, but only for the sampler. The loader also draws a
number for its processes. If it has the same generator, the order changes.
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
        if dataloader.generator is of_loader:
            # A release that shuffles on XLA as it does natively (before 0.24).
            return prepared
        # The device's loader wraps Accelerate's, which wraps torch's.
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
    """Returns the sampler that shuffles, or None if nothing shuffles."""
    from torch.utils.data import RandomSampler

    sampler = getattr(dataloader, "sampler", None)
    return sampler if isinstance(sampler, RandomSampler) else None


def _is_on_xla() -> bool:
    # Accelerate 0.x calls XLA "TPU".
    return str(getattr(_state().distributed_type, "value", "")) in ("XLA", "TPU")


def _is_alone() -> bool:
    return bool(_state().num_processes == 1)


def _state() -> Any:
    """Returns Accelerate's state of this process. Before 0.17 there was one class for it and for the precision."""
    from accelerate import state

    return getattr(state, "PartialState", state.AcceleratorState)()

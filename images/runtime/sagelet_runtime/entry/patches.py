"""Decides which patches a process gets, and after which of the script's imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from sagelet_runtime.base import deferrals
from sagelet_runtime.base.import_hook import PostImport, after
from sagelet_runtime.base.say import say
from sagelet_runtime.base.variables import is_on_xla
from sagelet_runtime.dynamo import xla as tracing
from sagelet_runtime.lowerings import choice
from sagelet_runtime.torch_xla import debugging, lightning


def activate() -> None:
    """Installs the hooks of a compiled job in this process."""
    from sagelet_runtime.gpu import missing_gpu
    from sagelet_runtime.hugging_face import alone, half, length, loading, refused
    from sagelet_runtime.torch_xla import first_backward, saving, shuffling

    deferrals.activate()
    debugging.name_files(os.environ)
    if is_on_xla(os.environ):
        after(saving.TRAINER, saving.install_trainer)
        after(first_backward.MODULE, first_backward.install)
        if tracing.is_chosen(os.environ):
            tracing.activate()
        else:
            deferrals.activate_torch_xla()
        if tracing.is_tiered(os.environ):
            tracing.activate_tiers()
            after(length.MODULE, length.install)
        if tracing.is_replayed(os.environ):
            _activate_replay()
        if choice.is_chosen(os.environ):
            _activate_lowerings()
        sys.meta_path.insert(0, PostImport("torch", install_without_torch_xla))
        if lightning.is_wanted(os.environ):
            lightning.activate()
    sys.meta_path.insert(0, PostImport("torch_xla", install, before=_leave_the_log_alone))
    after(saving.MODULE, saving.install)
    after(shuffling.MODULE, shuffling.install)
    after(loading.MODULE, loading.install)
    after(alone.MODULE, alone.install)
    of_libraries = [*refused.PATCHES, *(half.COMPILED if missing_gpu.is_compiled(os.environ) else ())]
    for name, patch in of_libraries:
        after(name, patch)
    after(half.MODULE, _dated)


def _activate_replay() -> None:
    """Hooks in before a script can take the functions over from torch. Without XLA tensors they do what torch's do."""
    from sagelet_runtime.replay import clipping, optimizers

    after(clipping.MODULE, clipping.install)
    after(optimizers.ADAM, optimizers.install_adam)
    after(optimizers.ADAMW, optimizers.install_adamw)
    after(optimizers.SGD, optimizers.install_sgd)


def _activate_lowerings() -> None:
    from sagelet_runtime.lowerings import pooling, recurrent

    after(pooling.MODULE, pooling.install)
    after("torch", recurrent.install)
    after(recurrent.TORCH_XLA_GRU, recurrent.install_gru)


def activate_native() -> None:
    """Installs the hooks of a native job.

    They count steps, leave the log's configuration to the script, and keep old libraries off XLA. Libraries import
    torch_xla to see whether it is installed.
    """
    from sagelet_runtime.hugging_face import alone

    deferrals.activate()
    after(alone.MODULE, alone.install)
    sys.meta_path.insert(0, PostImport("torch", install_native))
    sys.meta_path.insert(0, PostImport("torch_xla", _changed_nothing, before=_leave_the_log_alone))
    for library in ("transformers", "accelerate"):
        sys.meta_path.insert(0, PostImport(library, _changed_nothing, before=partial(_hide_torch_xla, library)))
    sys.meta_path.insert(0, PostImport("transformers.training_args", _dated_native))
    after("accelerate.state", _dated_state)


def activate_inductor() -> None:
    """Installs the hooks of a job that Inductor compiles. They are those of a native job, and these."""
    from sagelet_runtime.dynamo import faults, modules
    from sagelet_runtime.hugging_face import inductor as trainer
    from sagelet_runtime.inductor import cache, graphs, optimizers, prepared, vector_units

    after("torch", modules.install)
    after(optimizers.MODULE, optimizers.install)
    after(faults.MODULE, faults.install)
    after(graphs.MODULE, graphs.install)
    after(cache.MODULE, prepared.install_headers)
    after(vector_units.MODULE, prepared.install_trials)
    after(trainer.MODULE, trainer.install)


def activate_without_gpu() -> None:
    """Installs the hooks of a process whose CPUs stand in for GPUs."""
    from sagelet_runtime.gpu import missing_gpu
    from sagelet_runtime.hugging_face import half

    after("torch", missing_gpu.install)
    for name, patch in () if missing_gpu.is_compiled(os.environ) else half.NATIVE:
        after(name, patch)


def _leave_the_log_alone() -> None:
    """Imports script_log late, because a process that never imports torch_xla needs no logging."""
    from sagelet_runtime.torch_xla import script_log

    script_log.install()


def _changed_nothing(_module: ModuleType) -> None:
    """Leaves the module as it is. For native jobs."""


def _hide_torch_xla(library: str) -> None:
    from sagelet_runtime.hugging_face import dated

    dated.hide_torch_xla(library)


def _dated_native(training_args: ModuleType) -> None:
    from sagelet_runtime.hugging_face import dated

    dated.install_native(training_args)


def _dated_state(state: ModuleType) -> None:
    from sagelet_runtime.hugging_face import dated

    dated.install_state(state)


def _dated(training_args: ModuleType) -> None:
    from sagelet_runtime.hugging_face import dated

    dated.install(training_args)


def install(torch_xla: Any) -> None:
    """Applies every patch. One that does not fit this torch_xla is named in the log and left out.

    The patches that join the workers must fit: without them each worker would train alone. Their errors are raised.
    """
    from sagelet_runtime.collectives import install as world
    from sagelet_runtime.gpu import plugin as gpu
    from sagelet_runtime.reporting import compiled
    from sagelet_runtime.torch_xla import (
        amp,
        checkpoints,
        compat,
        in_place,
        loading,
        older,
        opened,
        optimizers,
        spawn,
        spawn_modules,
        ties,
        uncompiled,
    )

    # The stand-in for torch_xla has nothing of its own in C++, and the names of 2.9.
    if hasattr(torch_xla, "_XLAC"):
        older.install(torch_xla)
    is_compiled = is_on_xla(os.environ)
    if is_compiled:
        world.install(torch_xla)
        spawn.install(torch_xla)
    parts = (
        gpu, debugging, compat, amp, loading, ties, optimizers, in_place, checkpoints, opened, compiled, spawn_modules,
    )  # fmt: skip
    for part in parts if is_compiled else (uncompiled,):
        try:
            part.install(torch_xla)
        except (AttributeError, ImportError, TypeError) as error:
            release = getattr(torch_xla, "__version__", "of an unknown version")
            say(f"{part.__name__} does not fit torch_xla {release} and is left out: {error!r}")


def install_native(torch: Any) -> None:
    from sagelet_runtime.reporting import native

    _report(native.install, torch)


def install_without_torch_xla(torch: Any) -> None:
    """Counts what trains natively in a job that XLA compiles."""
    from sagelet_runtime.reporting import without_torch_xla

    _report(without_torch_xla.install, torch)


def _report(install: Callable[[Any], None], torch: Any) -> None:
    try:
        install(torch)
    except (AttributeError, ImportError, TypeError) as error:
        say(f"the report does not fit torch {getattr(torch, '__version__', 'of an unknown version')}: {error!r}")

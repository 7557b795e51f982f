"""Lets Transformers save a model once, in the main process.

On XLA its Trainer calls `save_pretrained` in every worker, with `is_main_process` only in the first. Only the
configuration heeds it: all workers write the same model.safetensors at the same time. On XLA the Trainer also omits the
tokenizer of the data collator, which it saves natively if the script names no other.

A script may also call `save_pretrained` itself, of a model on XLA. Transformers used to write with torch.save. Today it
writes safetensors, which needs tensors that have a storage.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from sagelet_runtime.base.wire import StateDict

#: The modules to patch once a script imports them.
MODULE = "transformers.modeling_utils"
TRAINER = "transformers.trainer"


def install(modeling_utils: ModuleType) -> None:
    model = modeling_utils.PreTrainedModel
    original = model.save_pretrained

    @functools.wraps(original)
    def save_pretrained(self: Any, save_directory: Any, is_main_process: bool = True, *args: Any, **rest: Any) -> Any:
        if not is_main_process:
            return None
        if not args and rest.get("state_dict") is None and is_on_xla(self):
            rest["state_dict"] = on_cpu(self)
        return original(self, save_directory, is_main_process, *args, **rest)

    model.save_pretrained = save_pretrained


def is_on_xla(model: Any) -> bool:
    return any(parameter.device.type == "xla" for parameter in model.parameters())


def on_cpu(model: Any) -> StateDict:
    """Returns the model's state dict, copied to the CPU. Shared weights stay shared: Transformers writes them once."""
    import torch_xla.core.xla_model as xm

    place = {name: str(id(weight)) for name, weight in model.named_parameters(remove_duplicate=False)}
    state = model.state_dict()
    copied = xm._maybe_convert_to_cpu({place.get(name, name): tensor for name, tensor in state.items()})
    return {name: copied[place.get(name, name)] for name in state}


def install_trainer(module: Any) -> None:
    trainer = module.Trainer
    # Releases before 4.4x do not save that tokenizer natively either.
    if "data_collator" not in trainer._save.__code__.co_names:
        return
    original = trainer._save_tpu

    @functools.wraps(original)
    def _save_tpu(self: Any, output_dir: str | None = None) -> None:
        original(self, output_dir)
        tokenizer = getattr(self.data_collator, "tokenizer", None)
        if tokenizer is None or self.processing_class is not None or not self.args.should_save:
            return
        # This is the Trainer's own line, logged as if from its own file.
        told = "Saving Trainer.data_collator.tokenizer by default as Trainer.processing_class is `None`"
        module.logger.info(told, stacklevel=2)
        tokenizer.save_pretrained(output_dir if output_dir is not None else self.args.output_dir)

    trainer._save_tpu = _save_tpu

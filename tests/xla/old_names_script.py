"""In the shape of Transformers' own run_clm.py of 4.21: its imports, its parser and its arguments, on made-up text."""

import json
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AdamW,
    AutoModelForCausalLM,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
    is_torch_tpu_available,
    set_seed,
)
from transformers.deepspeed import is_deepspeed_zero3_enabled
from transformers.testing_utils import CaptureLogger
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import check_min_version, send_example_telemetry

check_min_version("4.21.0")
MODEL_TYPES = tuple(kind.model_type for kind in MODEL_FOR_CAUSAL_LM_MAPPING)
NAMES = (CaptureLogger, get_last_checkpoint, is_deepspeed_zero3_enabled)


@dataclass
class ModelArguments:
    model_type: str = field(default="gpt2", metadata={"help": ", ".join(MODEL_TYPES)})
    config_overrides: str = field(default="")


class OldTrainer(Trainer):
    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False) -> Any:
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


def rows(count: int) -> list[dict[str, torch.Tensor]]:
    tokens = torch.randint(0, 50, (count, 16), generator=torch.Generator().manual_seed(3))
    return [{"input_ids": row, "labels": row} for row in tokens]


model_args, training_args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
send_example_telemetry("run_clm", model_args, training_args)
set_seed(training_args.seed)
config = CONFIG_MAPPING[model_args.model_type]()
config.update_from_string(model_args.config_overrides)
model = AutoModelForCausalLM.from_config(config).to(training_args.device)
optimizer = AdamW(model.parameters(), lr=training_args.learning_rate)
trainer = OldTrainer(
    model=model,
    args=training_args,
    train_dataset=rows(8),
    eval_dataset=rows(4),
    data_collator=default_data_collator,
    optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1)),
)
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
strategy = training_args.evaluation_strategy.value
print("seen=" + json.dumps([strategy, len(losses), is_torch_tpu_available(), training_args.device.type]))
print("losses=" + json.dumps(losses))

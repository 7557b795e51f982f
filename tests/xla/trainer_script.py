"""A tiny GPT-2 under the Hugging Face Trainer, with the Trainer's default optimizer, on text made from a seed."""

import argparse
import json
import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--fp16", type=int, default=0)
parser.add_argument("--max_grad_norm", type=float, default=1.0)
options = parser.parse_args()


class Tokens(torch.utils.data.Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.rows = torch.randint(0, 200, (128, 32), generator=generator)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


torch.manual_seed(0)
config = GPT2Config(
    n_layer=2, n_embd=64, n_head=2, n_positions=32, vocab_size=200, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
)
arguments = TrainingArguments(
    output_dir=os.environ["SM_OUTPUT_DATA_DIR"],
    per_device_train_batch_size=8,
    max_steps=options.steps,
    logging_steps=1,
    learning_rate=1e-3,
    lr_scheduler_type="constant",
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    fp16=bool(options.fp16),
    max_grad_norm=options.max_grad_norm,
)
trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens())
trainer.train()
trainer.save_model(os.environ["SM_MODEL_DIR"])
print("device=" + json.dumps(str(arguments.device)))
print("losses=" + json.dumps([entry["loss"] for entry in trainer.state.log_history if "loss" in entry]))

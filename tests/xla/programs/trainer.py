"""Hugging Face's Trainer as SMTC scripts set it up, in one worker or several; a second half from a checkpoint."""

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch_xla.core.xla_model as xm
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

RESULTS = Path(os.environ["RESULTS"])
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rows: list[int] = []


class Tokens(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.rows = torch.randint(0, 50, (64, 16), generator=torch.Generator().manual_seed(5))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        rows.append(index)
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def trainer(steps: int, **settings: Any) -> Trainer:
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=1, n_embd=32, n_head=2, n_positions=16, vocab_size=50, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    common: dict[str, Any] = {
        "output_dir": str(RESULTS / "checkpoints"),
        "per_device_train_batch_size": 8 // SIZE,
        "max_steps": steps,
        "logging_steps": 1,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "save_steps": 2,
        "report_to": [],
        "disable_tqdm": True,
        "fp16": True,
        "optim": "adamw_torch_xla",
        "dataloader_drop_last": True,
    }
    arguments = TrainingArguments(**common | settings)
    return Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens())


def weights_of(trained: Trainer) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in trained.model.cpu().state_dict().items()}


exact = trainer(3, fp16=False, optim="sgd", learning_rate=0.5, save_strategy="no")
before = weights_of(exact)
exact.train()
in_float32 = weights_of(exact)
rows.clear()
trainer(2).train()
# The Trainer waits for nobody after rank 0 has begun the last file of a checkpoint, trainer_state.json.
xm.rendezvous("the checkpoint is whole")
second = trainer(4)
second.train(resume_from_checkpoint=True)
own = RESULTS / f"model-{RANK}"
second.save_model(str(own))
found = {
    "losses": [entry["loss"] for entry in second.state.log_history if "loss" in entry],
    "weights": weights_of(second),
    "before": before,
    "weights in float32": in_float32,
    "rows": rows,
    "examples": second.num_examples(second.get_train_dataloader()),
    "saved": sorted(path.name for path in own.iterdir()) if own.exists() else [],
}
(RESULTS / f"rank-{RANK}.json").write_text(json.dumps(found))

"""Asks for float16 in the ways of scripts of 2021 to 2024, and prints what it came to as NAME=JSON."""

import json
import os
import tempfile
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

types: set[str] = set()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.net = nn.Linear(4, 3)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.net(x)
        types.add(str(logits.dtype))
        return {"loss": nn.functional.cross_entropy(logits.float(), labels), "logits": logits}


def rows() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(3)
    return [{"x": torch.randn(4, generator=generator), "labels": number % 3} for number in range(16)]


def show(name: str, value: Any) -> None:
    print(f"{name}={json.dumps(value)}", flush=True)


arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    fp16=True,
    fp16_full_eval=True,
    max_steps=3,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)
# In the words of run_glue.py of 4.21.
print(
    f"Process rank: {arguments.local_rank}, device: {arguments.device}, n_gpu: {arguments.n_gpu} "
    f"distributed training: {bool(arguments.local_rank != -1)}, 16-bits training: {arguments.fp16}"
)
trainer = Trainer(Model(), arguments, train_dataset=rows(), eval_dataset=rows())
trainer.train()
show("trained in", sorted(types))
types.clear()
trainer.evaluate()
show("evaluated in", sorted(types))
show("losses", [entry["loss"] for entry in trainer.state.log_history if "loss" in entry])

os.environ.pop("ACCELERATE_MIXED_PRECISION", None)
types.clear()

AcceleratorState._reset_state()
accelerator = Accelerator(mixed_precision="fp16")
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
x, y = torch.ones(2, 4, device=accelerator.device), torch.zeros(2, dtype=torch.long, device=accelerator.device)
accelerator.backward(model(x, y)["loss"])
optimizer.step()
show("accelerated in", sorted(types))

types.clear()
scaler = torch.cuda.amp.GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.cuda.amp.autocast():
    loss = Model().to(accelerator.device)(x, y)["loss"]
scaler.scale(loss)
show("torch's autocast in", sorted(types))

asked = {
    "to": lambda: torch.ones(1).to("cuda"),
    "cuda": lambda: nn.Linear(1, 1).cuda(),
    "device": lambda: torch.ones(1, device="cuda:0"),
    "set_device": lambda: torch.cuda.set_device(0),
    "name": lambda: torch.cuda.get_device_name(0),
}
for name, ask in asked.items():
    try:
        ask()
    except (RuntimeError, AssertionError) as error:
        show(f"cuda by {name}", str(error))
show("is there", torch.cuda.is_available())
torch.ones(1).to("cuda")

"""Ragged last batches under Hugging Face's Trainer and bare accelerate: what an evaluation counts, when updates come.

Started as a worker, or alone; RESULTS gets what was found. Alone and native it is what the workers are measured by.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset
from transformers import Trainer, TrainingArguments

RESULTS = Path(os.environ["RESULTS"])
RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
#: Of each worker.
BATCH = 4
#: Of all workers together, in a training.
TOGETHER = 12
EVALUATED, TRAINED = 10, 52


class Rows(Dataset[dict[str, Tensor]]):
    def __init__(self, count: int, wrapped: int = 0) -> None:
        """`wrapped`: how many of the first rows follow again, as accelerate fills up the last batch."""
        generator = torch.Generator().manual_seed(11)
        self.x = torch.randn(count, 4, generator=generator)
        self.y = torch.randint(0, 3, (count,), generator=generator)
        self.places = [*range(count), *range(wrapped)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        row = self.places[place]
        return {"x": self.x[row], "labels": self.y[row], "row": torch.tensor(row)}


class Stream(IterableDataset[dict[str, Tensor]]):
    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        rows = Rows(EVALUATED)
        return (rows[place] for place in range(EVALUATED))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, x: Tensor, labels: Tensor | None = None, row: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.net(x)
        found = {"logits": logits} if row is None else {"logits": torch.cat([logits, row[:, None].float()], 1)}
        return found if labels is None else {"loss": nn.functional.cross_entropy(logits, labels), **found}


class InOrder(Trainer):
    def _get_train_sampler(self, *_: Any, **__: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def weights_of(model: nn.Module) -> list[float]:
    return torch.cat([value.detach().cpu().flatten() for value in model.state_dict().values()]).tolist()


def measured(prediction: Any) -> dict[str, float]:
    rows = prediction.predictions[:, 3]
    right = (prediction.predictions[:, :3].argmax(1) == prediction.label_ids).mean()
    return {"count": len(rows), "mean": float(rows.mean()), "accuracy": float(right)}


def trainer(rows: Dataset[Any], **settings: Any) -> Trainer:
    arguments = TrainingArguments(
        output_dir=str(RESULTS / "checkpoints"),
        per_device_eval_batch_size=BATCH,
        per_device_train_batch_size=TOGETHER // SIZE,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        logging_steps=1,
        learning_rate=0.2,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **settings,
    )
    return InOrder(Model(), arguments, train_dataset=rows, eval_dataset=Rows(EVALUATED), compute_metrics=measured)


def evaluated() -> dict[str, Any]:
    one = trainer(Rows(TRAINED))
    predicted = one.predict(Rows(EVALUATED))
    streamed = one.evaluate(Stream())
    # By a process that loads.
    loaded = trainer(Rows(TRAINED), dataloader_num_workers=1).evaluate(Stream())
    return {
        "evaluate": one.evaluate(),
        "predict": predicted.metrics,
        "rows": predicted.predictions[:, 3].tolist(),
        "logits": predicted.predictions[:, :3].tolist(),
        "labels": predicted.label_ids.tolist(),
        "stream": streamed,
        "loaded stream": loaded,
    }


def trained(rows: Dataset[Any]) -> dict[str, Any]:
    """With an evaluation after each update, while the loader of the training is under way."""
    one = trainer(rows, eval_strategy="steps", eval_steps=1)
    one.train()
    history = one.state.log_history
    return {
        "losses": [entry["loss"] for entry in history if "loss" in entry],
        "counts": [entry["eval_count"] for entry in history if "eval_count" in entry],
        "accuracies": [entry["eval_accuracy"] for entry in history if "eval_accuracy" in entry],
        "weights": weights_of(one.model),
    }


def gathered(accelerator: Accelerator, model: nn.Module, loader: Any) -> list[float]:
    rows: list[float] = []
    with torch.no_grad():
        for batch in loader:
            rows += accelerator.gather_for_metrics(model(batch["x"], row=batch["row"])["logits"][:, 3]).tolist()
    return rows


def accumulated(rows: Dataset[Any]) -> dict[str, Any]:
    """accelerate's own loop, as its documents have it, with an evaluation in the midst of it."""
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    model, optimizer, batches, ragged = accelerator.prepare(
        model, optimizer, DataLoader(rows, batch_size=TOGETHER // SIZE), DataLoader(Rows(EVALUATED), batch_size=BATCH)
    )
    losses, updates, ends = [], [], []
    for _ in range(2):
        for number, batch in enumerate(batches):
            with accelerator.accumulate(model):
                loss = model(batch["x"], batch["labels"])["loss"]
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().item())
            updates.append(accelerator.sync_gradients)
            if number == 1:
                gathered(accelerator, model, ragged)
            ends.append(accelerator.gradient_state.end_of_dataloader)
    return {
        "losses": losses,
        "updates": updates,
        "ends": ends,
        "weights": weights_of(accelerator.unwrap_model(model)),
        "gathered": gathered(accelerator, model, ragged),
    }


def objects() -> list[str]:
    """Objects other than tensors, as question answering gathers them."""
    accelerator = Accelerator()
    found: list[str] = []
    for batch in accelerator.prepare(DataLoader(Rows(EVALUATED), batch_size=BATCH)):
        found += accelerator.gather_for_metrics([f"answer {int(row)}" for row in batch["row"]])
    return found


def dispatched() -> list[float]:
    """Loaded by the first worker, for all of them."""
    accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=True))
    model, loader = accelerator.prepare(Model(), DataLoader(Rows(EVALUATED), batch_size=BATCH))
    return gathered(accelerator, model, loader)


def broken() -> str:
    """What the script sees of a dataset that raises."""

    class Broken(Rows):
        def __getitem__(self, place: int) -> dict[str, Tensor]:
            if place == 9:
                raise ValueError("row 9 is bad")
            return super().__getitem__(place)

    accelerator = Accelerator()
    read = 0
    try:
        for batch in accelerator.prepare(DataLoader(Broken(EVALUATED), batch_size=1)):
            read += len(batch["x"])
    except ValueError as error:
        return f"{error} after {read}"
    return f"no error after {read}"


padding = -TRAINED % TOGETHER
whole = Rows(TRAINED, padding)
found = {"evaluated": evaluated(), "objects": objects()}
found["whole"] = {"trainer": trained(whole), "accelerate": accumulated(whole)}
if SIZE > 1 or os.environ.get("RAGGED"):
    ragged = Rows(TRAINED)
    found["ragged"] = {"trainer": trained(ragged), "accelerate": accumulated(ragged)}
found["dispatched"] = dispatched()
if SIZE == 1:
    found["broken"] = broken()
(RESULTS / f"rank-{RANK}.json").write_text(json.dumps(found))

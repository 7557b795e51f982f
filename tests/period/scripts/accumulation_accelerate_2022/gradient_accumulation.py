"""Gradient accumulation with `accelerator.accumulate`, in the shape of Accelerate's by_feature example of 2022."""

import argparse
import json
import logging
import os

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    get_linear_schedule_with_warmup,
    set_seed,
)

logging.basicConfig(format="%(levelname)s:%(name)s: %(message)s", level=logging.INFO)
logger = get_logger(__name__)


def get_dataloaders(accelerator: Accelerator, args):
    tokenizer = AutoTokenizer.from_pretrained(args.model)

    def rows(split):
        with open(os.path.join(args.data, f"{split}.json")) as file:
            return [json.loads(line) for line in file]

    def collate_fn(examples):
        texts = [example["sentence1"] for example in examples], [example["sentence2"] for example in examples]
        batch = tokenizer(*texts, padding="max_length", max_length=24, truncation=True, return_tensors="pt")
        batch["labels"] = torch.tensor([example["label"] for example in examples])
        return dict(batch)

    train = DataLoader(rows("ragged"), shuffle=False, collate_fn=collate_fn, batch_size=args.batch_size)
    evaluation = DataLoader(rows("ragged"), shuffle=False, collate_fn=collate_fn, batch_size=args.batch_size)
    return train, evaluation


def training_function(config, args):
    gradient_accumulation_steps = int(args.gradient_accumulation_steps)
    accelerator = Accelerator(
        cpu=args.cpu,
        mixed_precision=args.mixed_precision,
        gradient_accumulation_steps=gradient_accumulation_steps,
        even_batches=True,
    )
    set_seed(int(config["seed"]))
    train_dataloader, eval_dataloader = get_dataloaders(accelerator, args)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, return_dict=True)
    model = model.to(accelerator.device)
    optimizer = AdamW(params=model.parameters(), lr=config["lr"])
    lr_scheduler = get_linear_schedule_with_warmup(
        optimizer=optimizer,
        num_warmup_steps=1,
        num_training_steps=(len(train_dataloader) * int(config["num_epochs"])) // gradient_accumulation_steps,
    )
    model, optimizer, train_dataloader, eval_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, lr_scheduler
    )

    for epoch in range(int(config["num_epochs"])):
        model.train()
        updates = 0
        for batch in train_dataloader:
            # Gradients are synchronized, and the optimizer updates, only where accumulation ends.
            with accelerator.accumulate(model):
                output = model(**batch)
                accelerator.backward(output.loss)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
                updates += int(accelerator.sync_gradients)
        logger.info(f"epoch {epoch}: {updates} updates")

        model.eval()
        losses = []
        for batch in eval_dataloader:
            with torch.no_grad():
                outputs = model(**batch)
            each = torch.nn.functional.cross_entropy(outputs.logits, batch["labels"], reduction="none")
            losses += accelerator.gather_for_metrics(each).tolist()
        accelerator.print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f} over {len(losses)}")


def main():
    parser = argparse.ArgumentParser(description="Simple example of training script.")
    parser.add_argument("--mixed_precision", type=str, default=None, choices=["no", "fp16", "bf16"])
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--cpu", action="store_true", help="If passed, will train on the CPU.")
    parser.add_argument("--model", default=os.environ.get("SM_CHANNEL_MODEL"))
    parser.add_argument("--data", default=os.environ.get("SM_CHANNEL_PAIRS"))
    args = parser.parse_args()
    training_function({"lr": 1e-3, "num_epochs": 2, "seed": 42}, args)


if __name__ == "__main__":
    main()

"""Paraphrases with bare Accelerate, in the shape of its nlp_example.py of 2021."""

import argparse
import json
import os

import torch
from accelerate import Accelerator, DistributedType
from torch.utils.data import DataLoader
from transformers import (
    AdamW,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    get_linear_schedule_with_warmup,
    set_seed,
)

MAX_GPU_BATCH_SIZE = 4
EVAL_BATCH_SIZE = 4


class Accuracy:
    """`load_metric("glue", "mrpc")`, without the download."""

    def __init__(self):
        self.right, self.count = 0, 0

    def add_batch(self, predictions, references):
        self.right += int((predictions == references).sum())
        self.count += len(references)

    def compute(self):
        found = {"accuracy": self.right / self.count, "samples": self.count}
        self.right, self.count = 0, 0
        return found


def read(directory, split):
    with open(os.path.join(directory, f"{split}.json")) as file:
        return [json.loads(line) for line in file]


def training_function(config, args):
    accelerator = Accelerator(fp16=args.fp16, cpu=args.cpu)

    lr = config["lr"]
    num_epochs = int(config["num_epochs"])
    correct_bias = config["correct_bias"]
    seed = int(config["seed"])
    batch_size = int(config["batch_size"])

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    metric = Accuracy()

    # If the batch size is too big we use gradient accumulation
    gradient_accumulation_steps = 1
    if batch_size > MAX_GPU_BATCH_SIZE:
        gradient_accumulation_steps = batch_size // MAX_GPU_BATCH_SIZE
        batch_size = MAX_GPU_BATCH_SIZE

    def collate_fn(examples):
        texts = [example["sentence1"] for example in examples], [example["sentence2"] for example in examples]
        # On TPU it's best to pad everything to the same length or training will be very slow.
        fixed = accelerator.distributed_type == DistributedType.TPU
        padding = {"padding": "max_length", "max_length": 24} if fixed else {"padding": "longest"}
        batch = tokenizer(*texts, truncation=True, return_tensors="pt", **padding)
        batch["labels"] = torch.tensor([example["label"] for example in examples])
        return batch

    train_dataloader = DataLoader(
        read(args.data, "train"), shuffle=True, collate_fn=collate_fn, batch_size=batch_size
    )
    eval_dataloader = DataLoader(
        read(args.data, "validation"), shuffle=False, collate_fn=collate_fn, batch_size=EVAL_BATCH_SIZE
    )

    set_seed(seed)
    # The model is built here so that the seed also controls new weights
    model = AutoModelForSequenceClassification.from_pretrained(args.model, return_dict=True)
    model = model.to(accelerator.device)
    optimizer = AdamW(params=model.parameters(), lr=lr, correct_bias=correct_bias)
    model, optimizer, train_dataloader, eval_dataloader = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader
    )
    lr_scheduler = get_linear_schedule_with_warmup(
        optimizer=optimizer, num_warmup_steps=2, num_training_steps=len(train_dataloader) * num_epochs
    )

    for epoch in range(num_epochs):
        model.train()
        for step, batch in enumerate(train_dataloader):
            batch.to(accelerator.device)
            outputs = model(**batch)
            loss = outputs.loss
            loss = loss / gradient_accumulation_steps
            accelerator.backward(loss)
            if step % gradient_accumulation_steps == 0:
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()

        model.eval()
        losses = []
        for batch in eval_dataloader:
            batch.to(accelerator.device)
            with torch.no_grad():
                outputs = model(**batch)
            predictions = outputs.logits.argmax(dim=-1)
            losses.append(accelerator.gather(outputs.loss.reshape(1)).mean().item())
            metric.add_batch(
                predictions=accelerator.gather(predictions), references=accelerator.gather(batch["labels"])
            )
        eval_metric = metric.compute()
        accelerator.print(f"epoch {epoch}:", eval_metric)
        accelerator.print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}")


def main():
    parser = argparse.ArgumentParser(description="Simple example of training script.")
    parser.add_argument("--fp16", action="store_true", help="If passed, will use FP16 training.")
    parser.add_argument("--cpu", action="store_true", help="If passed, will train on the CPU.")
    parser.add_argument("--model", default=os.environ.get("SM_CHANNEL_MODEL"))
    parser.add_argument("--data", default=os.environ.get("SM_CHANNEL_PAIRS"))
    args = parser.parse_args()
    config = {"lr": 1e-3, "num_epochs": 2, "correct_bias": True, "seed": 42, "batch_size": 4}
    training_function(config, args)


if __name__ == "__main__":
    main()

"""Fine-tunes a classifier with the Hugging Face Trainer, in the shape of Hugging Face's first SageMaker notebook."""

import argparse
import json
import logging
import os
import sys

import numpy as np
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments


class Reviews:
    """What `load_from_disk` gave: rows of token ids and labels."""

    def __init__(self, directory, tokenizer):
        with open(os.path.join(directory, "data.json")) as file:
            rows = [json.loads(line) for line in file]
        encoded = tokenizer([row["text"] for row in rows], padding="max_length", truncation=True, max_length=16)
        self.rows = [
            {**{key: encoded[key][index] for key in encoded}, "labels": row["label"]} for index, row in enumerate(rows)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def compute_metrics(pred):
    labels, preds = pred.label_ids, pred.predictions.argmax(-1)
    hits = int(np.sum((preds == 1) & (labels == 1)))
    precision = hits / max(1, int(np.sum(preds == 1)))
    recall = hits / max(1, int(np.sum(labels == 1)))
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    return {"accuracy": float(np.mean(preds == labels)), "f1": f1, "precision": precision, "recall": recall}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    # hyperparameters sent by the client are passed as command-line arguments to the script.
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--eval_batch_size", type=int, default=64)
    parser.add_argument("--warmup_steps", type=int, default=500)
    parser.add_argument("--learning_rate", type=str, default=5e-5)
    parser.add_argument("--output_dir", type=str, default="/tmp/checkpoints")
    # directories of the container
    parser.add_argument("--output_data_dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--model_name", type=str, default=os.environ["SM_CHANNEL_MODEL"])
    parser.add_argument("--n_gpus", type=str, default=os.environ["SM_NUM_GPUS"])
    parser.add_argument("--training_dir", type=str, default=os.environ["SM_CHANNEL_TRAIN"])
    parser.add_argument("--test_dir", type=str, default=os.environ["SM_CHANNEL_TEST"])
    args, _ = parser.parse_known_args()

    logger = logging.getLogger(__name__)
    logging.basicConfig(
        level=logging.getLevelName("INFO"),
        handlers=[logging.StreamHandler(sys.stdout)],
        format="%(asctime)s - %(name)s - %(levelname)s - %(message)s",
    )

    tokenizer = AutoTokenizer.from_pretrained(args.model_name)
    train_dataset = Reviews(args.training_dir, tokenizer)
    test_dataset = Reviews(args.test_dir, tokenizer)
    logger.info(f" loaded train_dataset length is: {len(train_dataset)}")
    logger.info(f" loaded test_dataset length is: {len(test_dataset)}")

    model = AutoModelForSequenceClassification.from_pretrained(args.model_name)
    training_args = TrainingArguments(
        output_dir=args.output_dir,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.train_batch_size,
        per_device_eval_batch_size=args.eval_batch_size,
        warmup_steps=args.warmup_steps,
        evaluation_strategy="epoch",
        logging_dir=f"{args.output_data_dir}/logs",
        logging_steps=2,
        learning_rate=float(args.learning_rate),
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        compute_metrics=compute_metrics,
        train_dataset=train_dataset,
        eval_dataset=test_dataset,
        tokenizer=tokenizer,
    )
    trainer.train()

    eval_result = trainer.evaluate(eval_dataset=test_dataset)
    # writes eval result to file which can be accessed later in s3 output
    with open(os.path.join(args.output_data_dir, "eval_results.txt"), "w") as writer:
        print("***** Eval results *****")
        for key, value in sorted(eval_result.items()):
            writer.write(f"{key} = {value}\n")
    trainer.save_model(args.model_dir)

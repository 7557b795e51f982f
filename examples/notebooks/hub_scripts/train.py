"""Fine-tunes a text classifier, in the shape of Hugging Face's example for SageMaker. The model is the Hub's."""

import argparse
import json
import os

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, set_seed


class Rows(torch.utils.data.Dataset):
    def __init__(self, file, tokenizer):
        with open(file) as lines:
            self.rows = [json.loads(line) for line in lines]
        texts = [row["sentence"] for row in self.rows]
        # One length for all: a compiled model is compiled once.
        self.encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=64)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        item = {name: torch.tensor(values[index]) for name, values in self.encoded.items()}
        return {**item, "labels": torch.tensor(self.rows[index]["label"])}


def compute_metrics(prediction):
    right = prediction.predictions.argmax(-1) == prediction.label_ids
    return {"accuracy": float(right.mean())}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--eval_batch_size", type=int, default=64)
    parser.add_argument("--model_name", type=str)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--output_data_dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--training_dir", type=str, default=os.environ["SM_CHANNEL_TRAIN"])
    parser.add_argument("--test_dir", type=str, default=os.environ["SM_CHANNEL_TEST"])
    args, _ = parser.parse_known_args()

    # The classifier's weights are random: the same ones in both jobs.
    set_seed(42)
    tokenizer = AutoTokenizer.from_pretrained(args.model_name)
    # Without dropout both jobs' losses can be compared: they would draw other random numbers.
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model_name, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0
    )
    train_dataset = Rows(os.path.join(args.training_dir, "train.jsonl"), tokenizer)
    test_dataset = Rows(os.path.join(args.test_dir, "test.jsonl"), tokenizer)
    print(f"loaded train_dataset length is: {len(train_dataset)}")
    print(f"loaded test_dataset length is: {len(test_dataset)}")

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.output_data_dir,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=args.train_batch_size,
            per_device_eval_batch_size=args.eval_batch_size,
            learning_rate=args.learning_rate,
            logging_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        compute_metrics=compute_metrics,
        train_dataset=train_dataset,
        eval_dataset=test_dataset,
    )
    trainer.train()
    print("***** Eval results *****")
    for key, value in sorted(trainer.evaluate().items()):
        print(f"{key} = {value}")
    trainer.save_model(args.model_dir)
    tokenizer.save_pretrained(args.model_dir)

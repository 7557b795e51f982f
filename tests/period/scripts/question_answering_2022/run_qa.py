"""Extractive question answering, in the shape of Transformers' run_qa.py of 4.21."""

import json
import logging
import os
import sys
from dataclasses import dataclass, field
from typing import Optional

import numpy as np
import transformers
from trainer_qa import QuestionAnsweringTrainer
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    EvalPrediction,
    HfArgumentParser,
    TrainingArguments,
    default_data_collator,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import check_min_version, send_example_telemetry

check_min_version("4.21.0")

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    model_name_or_path: str = field(metadata={"help": "Path to pretrained model"})
    use_auth_token: bool = field(default=False)


@dataclass
class DataTrainingArguments:
    train_file: Optional[str] = field(default=None)
    validation_file: Optional[str] = field(default=None)
    max_seq_length: int = field(default=32)
    max_answer_length: int = field(default=4)


def read(path):
    """Examples of a file in SQuAD's form."""
    with open(path) as file:
        articles = json.load(file)["data"]
    return [
        {"id": qa["id"], "question": qa["question"], "context": paragraph["context"], "answers": qa["answers"]}
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


class Features:
    def __init__(self, examples, tokenizer, max_seq_length):
        encoded = tokenizer(
            [example["question"] for example in examples],
            [example["context"] for example in examples],
            truncation="only_second",
            max_length=max_seq_length,
            padding="max_length",
            return_offsets_mapping=True,
        )
        self.offsets = encoded.pop("offset_mapping")
        self.rows = []
        for index, example in enumerate(examples):
            row = {key: encoded[key][index] for key in encoded}
            begin = example["answers"][0]["answer_start"]
            end = begin + len(example["answers"][0]["text"])
            inside = [
                at
                for at, (first, last) in enumerate(self.offsets[index])
                if encoded.sequence_ids(index)[at] == 1 and first >= begin and last <= end
            ]
            row["start_positions"], row["end_positions"] = (inside[0], inside[-1]) if inside else (0, 0)
            self.rows.append(row)
        self.sequence_ids = [encoded.sequence_ids(index) for index in range(len(examples))]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def main():
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    send_example_telemetry("run_qa", model_args, data_args)

    # Setup logging
    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s",
        datefmt="%m/%d/%Y %H:%M:%S",
        handlers=[logging.StreamHandler(sys.stdout)],
    )
    log_level = training_args.get_process_log_level()
    logger.setLevel(log_level)
    transformers.utils.logging.set_verbosity(log_level)
    transformers.utils.logging.enable_default_handler()
    transformers.utils.logging.enable_explicit_format()

    logger.warning(
        f"Process rank: {training_args.local_rank}, device: {training_args.device}, n_gpu: {training_args.n_gpu}"
        + f"distributed training: {bool(training_args.local_rank != -1)}, 16-bits training: {training_args.fp16}"
    )
    logger.info(f"Training/evaluation parameters of {training_args.output_dir}")

    last_checkpoint = None
    if os.path.isdir(training_args.output_dir) and training_args.do_train:
        last_checkpoint = get_last_checkpoint(training_args.output_dir)
        if last_checkpoint is not None:
            logger.info(f"Checkpoint detected, resuming training at {last_checkpoint}.")
    set_seed(training_args.seed)

    config = AutoConfig.from_pretrained(model_args.model_name_or_path)
    tokenizer = AutoTokenizer.from_pretrained(model_args.model_name_or_path, use_fast=True)
    model = AutoModelForQuestionAnswering.from_pretrained(model_args.model_name_or_path, config=config)

    with training_args.main_process_first(desc="train dataset map pre-processing"):
        train_dataset = Features(read(data_args.train_file), tokenizer, data_args.max_seq_length)
    eval_examples = read(data_args.validation_file)
    with training_args.main_process_first(desc="validation dataset map pre-processing"):
        eval_dataset = Features(eval_examples, tokenizer, data_args.max_seq_length)

    def post_processing_function(examples, features, predictions, stage="eval"):
        if len(predictions[0]) != len(features):
            raise ValueError(f"Got {len(predictions[0])} predictions and {len(features)} features.")
        logger.info(f"Post-processing {len(examples)} example predictions split into {len(features)} features.")
        answers = []
        for index, example in enumerate(examples):
            start_logits, end_logits = predictions[0][index], predictions[1][index]
            usable = [at for at, which in enumerate(features.sequence_ids[index]) if which == 1]
            _, first, last = max(
                (start_logits[one] + end_logits[other], one, other)
                for one in usable
                for other in usable
                if one <= other < one + data_args.max_answer_length
            )
            text = example["context"][features.offsets[index][first][0] : features.offsets[index][last][1]]
            answers.append({"id": example["id"], "prediction_text": text})
        references = [{"id": example["id"], "answers": example["answers"]} for example in examples]
        return EvalPrediction(predictions=answers, label_ids=references)

    def compute_metrics(p: EvalPrediction):
        exact = [
            predicted["prediction_text"] == known["answers"][0]["text"]
            for predicted, known in zip(p.predictions, p.label_ids)
        ]
        return {"exact_match": 100.0 * float(np.mean(exact))}

    trainer = QuestionAnsweringTrainer(
        model=model,
        args=training_args,
        train_dataset=train_dataset if training_args.do_train else None,
        eval_dataset=eval_dataset if training_args.do_eval else None,
        eval_examples=eval_examples if training_args.do_eval else None,
        tokenizer=tokenizer,
        data_collator=default_data_collator,
        post_process_function=post_processing_function,
        compute_metrics=compute_metrics,
    )

    if training_args.do_train:
        train_result = trainer.train(resume_from_checkpoint=last_checkpoint)
        trainer.save_model()  # Saves the tokenizer too for easy upload
        metrics = train_result.metrics
        metrics["train_samples"] = len(train_dataset)
        trainer.log_metrics("train", metrics)
        trainer.save_metrics("train", metrics)
        trainer.save_state()

    if training_args.do_eval:
        logger.info("*** Evaluate ***")
        metrics = trainer.evaluate()
        metrics["eval_samples"] = len(eval_dataset)
        trainer.log_metrics("eval", metrics)
        trainer.save_metrics("eval", metrics)


def _mp_fn(index):
    # For xla_spawn (TPUs)
    main()


if __name__ == "__main__":
    main()

"""Fine-tunes a causal language model with the Hugging Face Trainer: what AWS's notebooks ask of run_clm.py, offline.

Same options, same log. Nothing is downloaded: the text comes from --train_file, a token is a byte, and the model is
made from --config_overrides. Nothing in it is about the compiler.
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments, set_seed

#: Every byte is a token.
VOCABULARY = 256


@dataclass
class ModelArguments:
    model_type: str = field(metadata={"help": "of AutoConfig: gpt2"})
    tokenizer_name: str = "bytes"
    config_overrides: str | None = field(default=None, metadata={"help": "n_layer=2,n_embd=64,..."})


@dataclass
class DataTrainingArguments:
    train_file: str = field(metadata={"help": "a text file"})
    block_size: int = field(default=512, metadata={"help": "tokens of a sample"})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "cutting bytes needs none"})


class Blocks(torch.utils.data.Dataset):
    """The bytes of a file, cut into blocks."""

    def __init__(self, file: str, size: int) -> None:
        data = Path(file).read_bytes()
        count = len(data) // size
        self._blocks = torch.frombuffer(bytearray(data[: count * size]), dtype=torch.uint8).view(count, size)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        block = self._blocks[index].long()
        return {"input_ids": block, "labels": block}


def main() -> None:
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    set_seed(training_args.seed)
    config = AutoConfig.for_model(model_args.model_type, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0)
    if model_args.config_overrides:
        config.update_from_string(model_args.config_overrides)
    trainer = Trainer(
        model=AutoModelForCausalLM.from_config(config),
        args=training_args,
        train_dataset=Blocks(data_args.train_file, data_args.block_size),
    )
    if trainer.is_world_process_zero():
        rows = training_args.per_device_train_batch_size
        print(f"device_type={training_args.device.type} batch={rows} workers={training_args.world_size}")
    trainer.train()
    trainer.save_model()


def _mp_fn(index: int) -> None:
    # What xla_spawn calls in each worker.
    main()


if __name__ == "__main__":
    main()

"""A tiny GPT-2 under the Hugging Face Trainer, with the flags that AWS's scripts set, on tokens made by a generator.

Nothing in it is about the compiler: on an image of the Training Compiler the Trainer finds an XLA device.
"""

import argparse
import json

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--n_gpus", type=int)
parser.add_argument("--batch_size", type=int, required=True)
parser.add_argument("--learning_rate", type=float, default=1e-2)
parser.add_argument("--output_dir", default="/opt/ml/model")
args, _others = parser.parse_known_args()


class Tokens(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.rows = torch.randint(0, 100, (64, 16), generator=torch.Generator().manual_seed(5))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main() -> None:
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=1, n_embd=32, n_head=2, n_positions=16, vocab_size=100, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    arguments = TrainingArguments(
        output_dir=args.output_dir,
        per_device_train_batch_size=args.batch_size,
        max_steps=4,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        learning_rate=args.learning_rate,
        dataloader_drop_last=True,
    )
    trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Tokens())
    trainer.train()
    if trainer.is_world_process_zero():
        print("losses=" + json.dumps([one["loss"] for one in trainer.state.log_history if "loss" in one]), flush=True)
        print(f"on {arguments.device.type} with {arguments.world_size} workers", flush=True)
    trainer.save_model()


def _mp_fn(index: int) -> None:
    main()


if __name__ == "__main__":
    main()

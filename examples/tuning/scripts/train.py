"""A tiny GPT-2 under the Hugging Face Trainer, on tokens made by a generator. Its objective is an evaluation's loss.

Nothing in it is about the compiler: on an image of the Training Compiler the Trainer finds an XLA device.
"""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=8)
parser.add_argument("--learning_rate", type=float, default=1e-2)
parser.add_argument("--max_steps", type=int, default=8)
parser.add_argument("--output_dir", default="/opt/ml/model")
# A training job of a tuning job also has _tuning_objective_metric.
args, _others = parser.parse_known_args()


class Tokens(torch.utils.data.Dataset):
    """Rows that count up from a number, so that there is something to learn."""

    def __init__(self, seed: int, count: int) -> None:
        starts = torch.randint(0, 100, (count, 1), generator=torch.Generator().manual_seed(seed))
        self.rows = (starts + torch.arange(16)) % 100

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class Evaluate(TrainerCallback):
    """Evaluates after each quarter of the steps, and prints the line that the tuner's metric definition finds."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_evaluate = state.global_step % max(1, state.max_steps // 4) == 0

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        print(f"eval_loss={metrics['eval_loss']:.6f}", flush=True)


def main() -> None:
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=1, n_embd=32, n_head=2, n_positions=16, vocab_size=100, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    arguments = TrainingArguments(
        output_dir=args.output_dir,
        per_device_train_batch_size=args.per_device_train_batch_size,
        per_device_eval_batch_size=16,
        max_steps=args.max_steps,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        learning_rate=args.learning_rate,
        dataloader_drop_last=True,
    )
    model = GPT2LMHeadModel(config)
    trainer = Trainer(
        model, arguments, train_dataset=Tokens(5, 256), eval_dataset=Tokens(6, 32), callbacks=[Evaluate()]
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()

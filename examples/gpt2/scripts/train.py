"""Trains a small GPT-2, byte by byte, with the Hugging Face Trainer: an ordinary SageMaker training script.

Nothing in it knows whether it is compiled: on an image of the Training Compiler the Trainer finds an XLA device.
"""

import argparse
import os
import time
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

SEQUENCE = 128


class Blocks(torch.utils.data.Dataset):
    """The bytes of all files in a directory, cut into blocks."""

    def __init__(self, directory: str) -> None:
        data = b"\n".join(path.read_bytes() for path in sorted(Path(directory).rglob("*")) if path.is_file())
        count = len(data) // SEQUENCE
        self._blocks = torch.frombuffer(bytearray(data[: count * SEQUENCE]), dtype=torch.uint8).view(count, SEQUENCE)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        block = self._blocks[index].long()
        return {"input_ids": block, "labels": block}


class Clock(TrainerCallback):
    """Says how far the training is, at each step at which the Trainer has read the loss.

    Reading it waits for the device. So the time between two of these lines is time of training, whichever device it
    is: an XLA device and a GPU run beside the script, and a clock that does not wait for them shows less.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def on_log(self, args, state, control, logs=None, **_: object) -> None:
        if logs and "loss" in logs:
            seconds = time.perf_counter() - self._began
            print(
                f"clock: step {state.global_step} of {state.max_steps}, {seconds:.3f} s, loss {logs['loss']}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=60)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--n_gpus", type=int, default=1)
    parser.add_argument("--read_every", type=int, default=5, help="steps from one reading of the loss to the next")
    options = parser.parse_args()

    clock = Clock()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=256, n_positions=SEQUENCE, n_embd=256, n_layer=4, n_head=4, bos_token_id=None, eos_token_id=None,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="/tmp/trainer",
            max_steps=options.max_steps,
            per_device_train_batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            logging_steps=options.read_every,
            logging_first_step=True,
            save_strategy="no",
            report_to=[],
            seed=0,
            disable_tqdm=True,
            dataloader_drop_last=True,
        ),
        train_dataset=Blocks(os.environ["SM_CHANNEL_TRAIN"]),
        callbacks=[clock],
    )
    print(f"device: {trainer.args.device}")
    trainer.train()
    trainer.save_model(os.environ["SM_MODEL_DIR"])


if __name__ == "__main__":
    main()

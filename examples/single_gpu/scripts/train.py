"""A training script as AWS's "Enable PyTorch" asks for it: plain PyTorch on an XLA device, no Trainer.

Learns y = 3x + noise from the CSV files of the channel `training`. Runs natively, too, where it finds no compiler.
"""

import argparse
import os
from pathlib import Path

import torch

COMPILED = os.environ.get("SM_TRAINING_COMPILER_CONFIGURED") == "1"
if COMPILED:
    import torch_xla.core.xla_model as xm


def read(directory: str) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [
        [float(cell) for cell in line.split(",")]
        for path in sorted(Path(directory).glob("*.csv"))
        for line in path.read_text().splitlines()
    ]
    table = torch.tensor(rows)
    return table[:, :1], table[:, 1:]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_gpus", type=int)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()

    torch.manual_seed(0)
    device = xm.xla_device() if COMPILED else torch.device("cpu")
    model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    inputs, targets = read(os.environ["SM_CHANNEL_TRAINING"])
    for epoch in range(options.epochs):
        for start in range(0, len(inputs) - options.batch_size + 1, options.batch_size):
            batch = slice(start, start + options.batch_size)
            optimizer.zero_grad()
            # Cut on the CPU: a slice of a tensor on the device is part of the program, one to compile for each place.
            loss = torch.nn.functional.mse_loss(model(inputs[batch].to(device)), targets[batch].to(device))
            loss.backward()
            if COMPILED:
                xm.optimizer_step(optimizer, barrier=True)
            else:
                optimizer.step()
        print(f"epoch {epoch} loss={loss.item():.8f}")
    model_file = os.path.join(os.environ["SM_MODEL_DIR"], "model.pth")
    (xm.save if COMPILED else torch.save)(model.state_dict(), model_file)


if __name__ == "__main__":
    main()

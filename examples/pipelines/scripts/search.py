"""A small network that learns y = 3x. On an image of the Training Compiler it trains on an XLA device."""

import argparse
import os
from pathlib import Path

import torch

COMPILED = os.environ.get("SM_TRAINING_COMPILER_CONFIGURED") == "1"
if COMPILED:
    import torch_xla.core.xla_model as xm


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--steps", type=int, default=40)
    # A training job of a tuning job also has _tuning_objective_metric.
    args, _others = parser.parse_known_args()
    torch.manual_seed(0)
    device = xm.xla_device() if COMPILED else torch.device("cpu")
    model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    values = torch.linspace(0, 1, 64).reshape(-1, 1).to(device)
    for _step in range(args.steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(values), 3 * values)
        loss.backward()
        if COMPILED:
            xm.optimizer_step(optimizer, barrier=True)
        else:
            optimizer.step()
    print(f"on {device}: loss={loss.item():.6f}")
    file = Path(os.environ["SM_MODEL_DIR"]) / "model.pth"
    (xm.save if COMPILED else torch.save)(model.state_dict(), str(file))


if __name__ == "__main__":
    main()

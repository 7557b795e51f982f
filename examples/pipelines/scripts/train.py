"""Fits a line to the rings of abalones by gradient descent. AWS's example has XGBoost here."""

import argparse
import os
from pathlib import Path

import numpy as np


def read(channel: str) -> tuple[np.ndarray, np.ndarray]:
    directory = Path(os.environ[f"SM_CHANNEL_{channel.upper()}"])
    table = np.loadtxt(next(directory.glob("*.csv")), delimiter=",")
    return table[:, 1:], table[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    args, _others = parser.parse_known_args()
    values, target = read("train")
    held_out, truth = read("validation")
    weights, bias = np.zeros(values.shape[1]), 0.0
    for epoch in range(1, args.epochs + 1):
        error = values @ weights + bias - target
        weights -= args.learning_rate * values.T @ error / len(target)
        bias -= args.learning_rate * error.mean()
        if epoch % max(1, args.epochs // 4) == 0:
            print(f"epoch {epoch} validation:rmse={np.sqrt(np.mean((held_out @ weights + bias - truth) ** 2)):.4f}")
    np.savez(Path(os.environ["SM_MODEL_DIR"]) / "model.npz", weights=weights, bias=bias)


if __name__ == "__main__":
    main()

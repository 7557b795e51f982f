"""Makes numbers of the rows of abalone.csv, in three files: `train`, `validation`, `test`. The target comes first."""

import csv
from pathlib import Path

import numpy as np

BASE = Path("/opt/ml/processing")
SEXES = ("M", "F", "I")


def main() -> None:
    with next((BASE / "input").glob("*.csv")).open() as file:
        rows = list(csv.DictReader(file))
    target = np.array([float(row.pop("rings")) for row in rows])
    sexes = [row.pop("sex") for row in rows]
    values = np.array([[float(value) for value in row.values()] for row in rows])
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    one_hot = np.array([[float(sex == one) for one in SEXES] for sex in sexes])
    table = np.column_stack([target, scaled, one_hot])
    np.random.default_rng(7).shuffle(table)
    ends = int(0.7 * len(table)), int(0.85 * len(table))
    for name, part in zip(("train", "validation", "test"), np.split(table, ends), strict=True):
        directory = BASE / name
        directory.mkdir(parents=True, exist_ok=True)
        np.savetxt(directory / f"{name}.csv", part, delimiter=",", fmt="%.6f")
        print(f"{name}: {len(part)} rows")


if __name__ == "__main__":
    main()

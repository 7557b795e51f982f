"""Writes a data set in the form of GLUE's SST-2, of reviews that are made here: `make_sst2.py DIRECTORY`.

A warm word makes a review a good one, so there is something to learn.
"""

import csv
import sys
from pathlib import Path

from offline_text import reviews

GOOD = ("warm", "funny", "clever", "charming", "moving", "bright")


def write(file: Path, rows: int, seed: int) -> None:
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["sentence", "label", "idx"])
        for number, sentence in enumerate(reviews(rows, seed).splitlines()):
            words = sentence.split()
            writer.writerow([sentence, int(sum(word in GOOD for word in words) == 2), number])


if __name__ == "__main__":
    directory = Path(sys.argv[1]) / "sst2"
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "train.csv", rows=256, seed=1)
    write(directory / "validation.csv", rows=64, seed=2)

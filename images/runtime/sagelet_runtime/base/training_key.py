"""Which training this is: the key under which the compile cache keeps how fast it was by each compiler."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: Set for the workers: `SHAPE:DIRECTORY`, the digest of what `shape` takes and the directory of the scripts.
VARIABLE = "SAGELET_TRAINING"
#: Parts of the names of hyperparameters that do not change what a step computes.
FREE = (
    "epoch",
    "max_steps",
    "num_steps",
    "learning_rate",
    "lr",
    "seed",
    "warmup",
    "output",
    "log",
    "save",
    "sagemaker",
)
#: The most scripts that are looked at, and bytes of each.
MOST, LIMIT = 500, 1 << 20


def shape(hyperparameters: Mapping[str, Any], hosts: str) -> str:
    """Returns the digest of what decides how long a step of the same scripts takes, as far as it is known before.

    `hosts`: what they are and how many, and whether a launcher starts their workers.
    """
    same = {
        name: str(value) for name, value in hyperparameters.items() if not any(part in name.lower() for part in FREE)
    }
    return hashlib.sha256(json.dumps([same, hosts], sort_keys=True).encode()).hexdigest()


def key(digest: str, directory: Path) -> str:
    """Returns 64 hexadecimal digits for a shape and the scripts below a directory. Raises OSError."""
    hashed = hashlib.sha256(digest.encode())
    for path, text in scripts(directory):
        hashed.update(path.encode("utf-8", "surrogateescape") + b"\0" + hashlib.sha256(text).digest())
    return hashed.hexdigest()


def scripts(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the path and the text of the first MOST Python files below a directory, by their paths."""
    paths = []
    for above, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name != "__pycache__" and not name.startswith("."))
        paths += [Path(above, name) for name in files if name.endswith(".py")]
        if len(paths) >= MOST:
            break
    for path in sorted(paths)[:MOST]:
        with path.open("rb") as file:
            yield path.relative_to(directory).as_posix(), file.read(LIMIT)


def of_process(environ: Mapping[str, str]) -> str:
    """Returns the key of the training that this worker runs. Empty if nobody said, or the scripts cannot be read."""
    digest, _, directory = environ.get(VARIABLE, "").partition(":")
    if not directory:
        return ""
    try:
        return key(digest, Path(directory))
    except OSError:
        return ""

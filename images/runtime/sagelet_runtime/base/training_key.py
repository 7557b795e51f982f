"""Which training this is: the key under which the compile cache keeps how fast it was by each compiler."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: Set for the workers: `SHAPE:DIRECTORY`, the digest of what `shape` takes and the directory of the scripts.
VARIABLE = "SAGELET_TRAINING"
#: Words of the names of hyperparameters that do not change what a step computes: `warmup_steps`, `log-interval`.
FREE_WORDS = frozenset({"epoch", "epochs", "lr", "seed", "warmup", "log", "logging", "save", "sagemaker"})
#: Of several words. `num_steps` and `output_size` are part of the key: in many scripts they are the length of a
#: sequence and of a layer.
FREE_NAMES = re.compile(r"steps|.*(max_steps|learning_rate|output_(dir|data_dir|path|file)).*")
#: The most scripts that are looked at, and bytes of each.
MOST, LIMIT = 500, 1 << 20


def free(name: str) -> bool:
    """Returns whether a hyperparameter does not change what a step computes, by its name."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return not FREE_WORDS.isdisjoint(words) or FREE_NAMES.fullmatch("_".join(words)) is not None


def shape(hyperparameters: Mapping[str, Any], hosts: str) -> str:
    """Returns the digest of what decides how long a step of the same scripts takes, as far as it is known before.

    `hosts`: what they are and how many, and whether a launcher starts their workers.
    """
    same = {name: str(value) for name, value in hyperparameters.items() if not free(name)}
    return hashlib.sha256(json.dumps([same, hosts], sort_keys=True).encode()).hexdigest()


def key(digest: str, directory: Path) -> str:
    """Returns 64 hexadecimal digits for a shape and the scripts below a directory. Empty if no script is there:
    trainings whose scripts are elsewhere cannot be told apart.
    """
    hashed, count = hashlib.sha256(digest.encode()), 0
    for path, text in scripts(directory):
        hashed.update(path.encode("utf-8", "surrogateescape") + b"\0" + hashlib.sha256(text).digest())
        count += 1
    return hashed.hexdigest() if count else ""


def scripts(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the path and the text of the first MOST Python files below a directory, by their paths.

    Only what is a file and can be read is a script: a pipe of that name would never end.
    """
    paths = []
    for above, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name != "__pycache__" and not name.startswith("."))
        paths += [Path(above, name) for name in files if name.endswith(".py")]
        if len(paths) >= MOST:
            break
    for path in sorted(paths)[:MOST]:
        text = _text(path)
        if text is not None:
            yield path.relative_to(directory).as_posix(), text


def _text(path: Path) -> bytes | None:
    try:
        # A pipe without a writer, and some devices, would make a plain open() wait for ever.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            return file.read(LIMIT) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


def of_process(environ: Mapping[str, str]) -> str:
    """Returns the key of the training that this worker runs. Empty if nobody said."""
    digest, _, directory = environ.get(VARIABLE, "").partition(":")
    return key(digest, Path(directory)) if directory else ""

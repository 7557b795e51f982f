"""Files of debug mode. Every worker has its own, and each is complete when the process ends."""

import atexit
import os
from collections.abc import MutableMapping
from typing import Any

from sagelet_runtime.base.compiler import DEBUG_FILES
from sagelet_runtime.base.say import say


def name_files(environ: MutableMapping[str, str]) -> None:
    """Gives each worker but the first its own file names, because all workers of a job end up in one directory.

    `XLA_METRICS_FILE.txt` becomes `XLA_METRICS_FILE.RANK.txt`. May be repeated. A name that the user chose stays.
    """
    rank = environ.get("RANK", "0")
    if not rank.isdigit() or int(rank) == 0:
        return
    for variable, name in DEBUG_FILES.items():
        directory, found = os.path.split(environ.get(variable, ""))
        if found == name:
            stem, dot, suffix = name.partition(".")
            environ[variable] = os.path.join(directory, f"{stem}.{int(rank)}{dot}{suffix}")


def install(torch_xla: Any) -> None:
    if not os.environ.get("XLA_METRICS_FILE"):
        return
    name_files(os.environ)
    from torch_xla.debug import metrics_saver

    # torch_xla's own function adds a number to the first worker's file, too. The same number exists on each host.
    metrics_saver._extract_metrics_file = lambda: os.environ.get("XLA_METRICS_FILE")
    atexit.register(_save_metrics, torch_xla, os.getpid())


def _save_metrics(torch_xla: Any, owner: int) -> None:
    """Saves the metrics at exit. torch_xla saves them at each sync, so a script that never syncs would leave none."""
    if os.getpid() != owner or not torch_xla._XLAC._xla_runtime_is_initialized():
        return
    from torch_xla.debug import metrics_saver

    try:
        metrics_saver.save_metrics()
    except Exception as error:
        say(f"the metrics of torch_xla could not be saved: {error!r}")

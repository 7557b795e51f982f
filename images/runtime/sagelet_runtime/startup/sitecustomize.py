"""First on PYTHONPATH of a compiled job's processes: readies the torch_xla hook, then runs the sitecustomize it hides.

Every Python of the job imports this at start, so it stays small and does nothing unless the job is compiled.
"""

import os
import sys
from importlib import util

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))


def _activate() -> None:
    if os.environ.get("SM_TRAINING_COMPILER_CONFIGURED") != "1" and "SAGELET_NOT_COMPILED" not in os.environ:
        return
    if util.find_spec("sagelet_runtime") is None:
        sys.path.append(_ROOT)
    from sagelet_runtime import hook

    hook.activate()


def _run_hidden() -> None:
    for path in sys.path:
        file = os.path.join(path, "sitecustomize.py")
        if os.path.abspath(path) == _HERE or not os.path.isfile(file):
            continue
        spec = util.spec_from_file_location("_hidden_sitecustomize", file)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(util.module_from_spec(spec))
        return


_activate()
_run_hidden()

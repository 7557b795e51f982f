"""Has this process start its scripts by the `python` of the tests. Then it runs the sitecustomize that it hides."""

import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_hidden() -> None:
    for path in sys.path[sys.path.index(_HERE) + 1 :] if _HERE in sys.path else []:
        file = os.path.join(path, "sitecustomize.py")
        if os.path.isfile(file):
            spec = importlib.util.spec_from_file_location("_below_the_tests", file)
            assert spec is not None
            assert spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return


if directory := os.environ.get("TEST_FORKED_PYTHON"):
    sys.executable = os.path.join(directory, "bin", "python")
_run_hidden()

"""Every Python under `sagelet run` runs this file, because its directory is first on PYTHONPATH. Standard library,
Python 3.8 on.

It prepares the redirection and then removes itself. The sitecustomize that it hides, the user's own or the
distribution's, runs in its place and under its name, as if this file did not exist.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

import _sagelet_redirect  # type: ignore[import-not-found]

_HERE = os.path.dirname(os.path.abspath(__file__))

_sagelet_redirect.activate(os.environ.get("SAGELET_ENDPOINT", ""))

_spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path or ".") != _HERE])
if _spec is not None and _spec.loader is not None:
    _hidden = module_from_spec(_spec)
    sys.modules["sitecustomize"] = _hidden
    _spec.loader.exec_module(_hidden)

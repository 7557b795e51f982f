"""Run by every Python under `sagelet run`, as its directory is first on PYTHONPATH. Standard library, Python 3.8 on.

Readies the redirection, then takes itself away: the sitecustomize that it hides, the user's own or the
distribution's, runs in its place and under its name, as if this file were not there.
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

"""Decides which jobs get the old names, and installs the hooks that add them."""

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

from sagelet_runtime.base.import_hook import PostImport
from sagelet_runtime.base.say import say

#: Set in jobs whose image had, or may have had, a Transformers from before the removals. Its version, or 0 if unknown.
VARIABLE = "SAGELET_OLD_TRANSFORMERS"
#: The version that stands in for it: the one installed before requirements.txt.
STANDS_IN = "SAGELET_STAND_IN_TRANSFORMERS"
#: The version with which the old names are compared.
MEASURED = "4.57"

#: The module that a script imports, sagelet's module that patches it, and the function there.
HOOKS = (
    ("transformers.utils.import_utils", "names", "install_package"),
    ("transformers.utils", "names", "install_utils"),
    ("transformers.file_utils", "names", "install_file_utils"),
    ("transformers.optimization", "names", "install_optimization"),
    ("transformers.training_args", "arguments", "install"),
    ("transformers.training_args", "levels", "install"),
    ("transformers.hf_argparser", "parser", "install"),
    ("transformers.trainer", "trainer", "install"),
    ("accelerate.accelerator", "accelerator", "install"),
    ("accelerate.utils.dataclasses", "accelerator", "install_types"),
    ("accelerate.utils", "accelerator", "install_utils"),
    ("datasets", "data", "install"),
)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables. Empty unless this image stands in for another whose scripts may need the names."""
    from sagelet_runtime.base import image, installed

    uri, there = environ.get("SAGELET_TRAINING_IMAGE"), installed.version("transformers")
    if not uri or there is None:
        return {}
    # In the PyTorch images, requirements.txt decides the version of Transformers.
    asked = image.versions_of(uri).get("transformers", "0")
    return {VARIABLE: asked, STANDS_IN: there} if image.numbers(asked) < image.numbers(MEASURED) else {}


def activate() -> None:
    """Installs the hooks in this process. Nothing else happens until a script imports Hugging Face's libraries."""
    from sagelet_runtime.hugging_face import moved

    for name, part, function in HOOKS:
        sys.meta_path.insert(0, PostImport(name, _patch(part, function)))
    sys.meta_path.append(moved.Moved())


def _patch(part: str, function: str) -> Callable[[ModuleType], None]:
    """Returns the patch. If it does not fit the installed package, it is named in the log, and the import goes on."""

    def patch(module: ModuleType) -> None:
        try:
            getattr(importlib.import_module(f"sagelet_runtime.hugging_face.{part}"), function)(module)
        except (AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
            say(f"the old names of {module.__name__} are left out: {error!r}")

    return patch

"""Which jobs get the old names, and the hooks that add them."""

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

from sagelet_runtime.hook import PostImport
from sagelet_runtime.say import say

#: Set in jobs whose image had a Transformers of before the removals, or may have had. Its version; 0 if none is named.
VARIABLE = "SAGELET_OLD_TRANSFORMERS"
#: The version that stands in for it: the one that is there before requirements.txt is installed.
STANDS_IN = "SAGELET_STAND_IN_TRANSFORMERS"
#: The version that the old names are measured against.
MEASURED = "4.57"

#: Module that a script imports, our module that patches it, and the function there.
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
    """The variables, where an image is stood in for and its scripts may need the names."""
    from sagelet_runtime import image, installed

    uri, there = environ.get("SAGELET_TRAINING_IMAGE"), installed.version("transformers")
    if not uri or there is None:
        return {}
    # The PyTorch images leave the version of Transformers to the script's requirements.
    asked = image.versions_of(uri).get("transformers", "0")
    return {VARIABLE: asked, STANDS_IN: there} if image.numbers(asked) < image.numbers(MEASURED) else {}


def activate() -> None:
    """Installs the hooks in this process. Until a script imports Hugging Face this is all that happens."""
    from sagelet_runtime.hugging_face import moved

    for name, part, function in HOOKS:
        sys.meta_path.insert(0, PostImport(name, _patch(part, function)))
    sys.meta_path.append(moved.Moved())


def _patch(part: str, function: str) -> Callable[[ModuleType], None]:
    """A part that does not fit the package that is there is named in the log; the import goes on."""

    def patch(module: ModuleType) -> None:
        try:
            getattr(importlib.import_module(f"sagelet_runtime.hugging_face.{part}"), function)(module)
        except (AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
            say(f"the old names of {module.__name__} are left out: {error!r}")

    return patch

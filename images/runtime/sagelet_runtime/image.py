"""What stands in for the image that a request names, and where a script may notice."""

import platform
import re
from collections.abc import Mapping

from sagelet_runtime import installed
from sagelet_runtime.say import say

#: The Training Compiler's and the other PyTorch images: `1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04`.
_TAG = re.compile(
    r":(?P<torch>\d+(?:\.\d+)*)(?:-transformers(?P<transformers>\d+(?:\.\d+)*))?-(?:[cg]pu)-py(?P<python>\d+)"
)

#: From which version on something is gone, and what. Only what training scripts of those versions use, and what
#: hugging_face does not make up for.
_GONE = {
    "python": {
        (3, 10): "`collections.Mapping` and its kin (use collections.abc)",
        (3, 12): "distutils",
    },
    "torch": {
        (2, 6): "torch.load of whole objects without weights_only=False",
    },
    "transformers": {
        (4, 26): "transformers.file_utils.cached_path and its kin (use huggingface_hub)",
        (4, 47): "transformers.AdamW(correct_bias=False) (use torch.optim.AdamW)",
    },
}
#: images/variants.py of the engine; emulator's rules.toml says which jobs get it.
NEARER = "`sagelet image build --variant py39` makes an image of that day, in which such jobs then run on Docker"
_NAMES = {"python": "Python", "torch": "PyTorch", "transformers": "Transformers"}


def say_what_stands_in(environ: Mapping[str, str]) -> None:
    """One line about the image, and one about what its scripts may miss. Nothing where no image is named."""
    uri = environ.get("SAGELET_TRAINING_IMAGE")
    if not uri:
        return
    found = versions()
    parts = [f"{_NAMES.get(name, name)} {version}" for name, version in found.items()]
    say(f"{uri} is stood in for by {', '.join(parts)}")
    asked = versions_of(uri)
    gone = missing(asked, found)
    if gone:
        theirs = ", ".join(f"{_NAMES[name]} {version}" for name, version in asked.items())
        nearer = f". {NEARER}" if has_nearer(asked, found) else ""
        say(f"that image had {theirs}; a script of then may miss here: {'; '.join(gone)}{nearer}")


def has_nearer(asked: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """Whether the py39 variant of our image is of the day of the one asked for, and this is another one."""
    return (
        asked.get("torch", "").startswith("1.")
        and numbers(asked.get("python", "3")) < (3, 10) <= numbers(found["python"])
        and numbers(asked.get("transformers", "4")) < (4, 22)
    )


def versions() -> dict[str, str]:
    """Of this Python and what it has."""
    found = {name: version for name in ("torch", "torch_xla", "transformers") if (version := installed.version(name))}
    return {"python": platform.python_version(), **found}


def versions_of(uri: str) -> dict[str, str]:
    """What the tag of a Deep Learning Container says."""
    tag = _TAG.search(uri)
    if tag is None:
        return {}
    named = {name: value for name, value in tag.groupdict().items() if value}
    return {**named, "python": f"{named['python'][0]}.{named['python'][1:]}".rstrip(".")}


def missing(asked: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What was removed after the versions asked for, up to those found."""
    return [
        what
        for name, removals in _GONE.items()
        if name in asked and name in found
        for since, what in removals.items()
        if numbers(asked[name]) < since <= numbers(found[name])
    ]


def numbers(version: str) -> tuple[int, ...]:
    """`2.9.0+cu128` as (2, 9, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))

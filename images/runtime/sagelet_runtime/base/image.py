"""Says what stands in for the image that a request names, and which removed features its scripts may miss."""

import platform
import re
from collections.abc import Mapping

from sagelet_runtime.base import installed
from sagelet_runtime.base.say import say

#: Tags of the Training Compiler's and the other PyTorch images: `1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04`.
_TAG = re.compile(
    r":(?P<torch>\d+(?:\.\d+)*)(?:-transformers(?P<transformers>\d+(?:\.\d+)*))?-(?:[cg]pu)-py(?P<python>\d+)"
)

#: The releases of PyTorch for which AWS made training images (image_uri_config of SageMaker's Python SDK 2.257).
RELEASES = frozenset({
    "0.4.0", "1.0.0", "1.1.0", "1.2.0", "1.3.1", "1.4.0", "1.5.0", "1.6.0", "1.7.1", "1.8.0", "1.8.1",
    "1.9.0", "1.9.1", "1.10.0", "1.10.2", "1.11.0", "1.12.0", "1.12.1", "1.13.1", "2.0.0", "2.0.1", "2.1.0",
    "2.1.2", "2.2.0", "2.3.0", "2.3.1", "2.4.0", "2.5.0", "2.5.1", "2.6.0", "2.7.0", "2.7.1", "2.8.0",
})  # fmt: skip
#: Removed features, by package and the first version without each. Lists only what training scripts of those versions
#: use and what the package hugging_face does not restore.
_GONE = {
    "python": {
        (3, 10): "`collections.Mapping` and similar names (use collections.abc)",
        (3, 12): "distutils",
    },
    "transformers": {
        (4, 26): "transformers.file_utils.cached_path and similar names (use huggingface_hub)",
        (4, 47): "transformers.AdamW(correct_bias=False) (use torch.optim.AdamW)",
    },
}
#: PyTorch since 2.6 loads only weights by default. This variable brings back the former default (PyTorch's notes,
#: "Serialization semantics"); a script's own `weights_only=` still counts.
_LOADING, _LOADS_WEIGHTS = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}, (2, 6)
#: The variants are in images/variants.py of the engine. The emulator's rules.toml says which jobs get this one.
NEARER = "`sagelet image build --variant py39` makes an image of that day, in which such jobs then run on Docker"
_NAMES = {"python": "Python", "torch": "PyTorch", "transformers": "Transformers"}


def say_what_stands_in(environ: Mapping[str, str]) -> None:
    """Prints a line about the image, and one about what its scripts may miss. Prints nothing if no image is named."""
    uri = environ.get("SAGELET_TRAINING_IMAGE")
    if not uri:
        return
    found = versions()
    parts = [f"{_NAMES.get(name, name)} {version}" for name, version in found.items()]
    say(f"in place of {uri} the job has {', '.join(parts)}")
    asked = versions_of(uri)
    gone = missing(asked, found)
    if gone and is_an_image(asked):
        theirs = ", ".join(f"{_NAMES[name]} {version}" for name, version in asked.items())
        nearer = f". {NEARER}" if has_nearer(asked, found) else ""
        say(f"that image had {theirs}; a script of that time may miss here: {'; '.join(gone)}{nearer}")


def is_an_image(asked: Mapping[str, str]) -> bool:
    """True if AWS made an image of that PyTorch. A tag may name any version, and the alias 1.13 has no third number."""
    torch = asked.get("torch", "")
    return torch in RELEASES or any(release.rpartition(".")[0] == torch for release in RELEASES)


def loading_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variable with which `torch.load` reads whole objects, for jobs whose image had a PyTorch that did.

    Empty if the job's Environment sets one of torch's variables for it.
    """
    asked = versions_of(environ.get("SAGELET_TRAINING_IMAGE", "")).get("torch")
    if asked is None or numbers(asked) >= _LOADS_WEIGHTS:
        return {}
    if any(name in environ for name in (*_LOADING, "TORCH_FORCE_WEIGHTS_ONLY_LOAD")):
        return {}
    return dict(_LOADING)


def has_nearer(asked: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """True if the image's py39 variant is closer in time to the image asked for, and this image is not that variant."""
    return (
        asked.get("torch", "").startswith("1.")
        and numbers(asked.get("python", "3")) < (3, 10) <= numbers(found["python"])
        and numbers(asked.get("transformers", "4")) < (4, 22)
    )


def versions() -> dict[str, str]:
    """Returns the versions of this Python and of its packages."""
    found = {name: version for name in ("torch", "torch_xla", "transformers") if (version := installed.version(name))}
    return {"python": platform.python_version(), **found}


def versions_of(uri: str) -> dict[str, str]:
    """Reads versions from the tag of a Deep Learning Container. Empty if the tag has another form."""
    tag = _TAG.search(uri)
    if tag is None:
        return {}
    named = {name: value for name, value in tag.groupdict().items() if value}
    return {**named, "python": f"{named['python'][0]}.{named['python'][1:]}".rstrip(".")}


def missing(asked: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Lists what was removed after the versions asked for, up to the versions found."""
    return [
        what
        for name, removals in _GONE.items()
        if name in asked and name in found
        for since, what in removals.items()
        if numbers(asked[name]) < since <= numbers(found[name])
    ]


def numbers(version: str) -> tuple[int, ...]:
    """Returns (2, 9, 0) for `2.9.0+cu128`."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))

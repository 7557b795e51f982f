"""What the name and the tag of a Deep Learning Container say about it."""

import re
from dataclasses import dataclass

_REPOSITORY = re.compile(
    r"(?:^|/)(?P<huggingface>huggingface-)?(?P<framework>pytorch|tensorflow)-(?P<compiler>trcomp-)?training"
    r"(?:-neuronx?)?(?::(?P<tag>[\w.-]+))?(?:@sha256:[0-9a-f]{64})?$"
)
_FRAMEWORK_VERSION = re.compile(r"^(\d+(?:\.\d+)+)(?=-|$)")
_TRANSFORMERS = re.compile(r"-transformers(\d+(?:\.\d+)*)")
_PROCESSOR = re.compile(r"-(cpu|gpu)(?=-|$)")
_PYTHON = re.compile(r"-py(\d)(\d*)(?=-|$)")
_NAMES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}


@dataclass(frozen=True)
class ImageFacts:
    """Facts in a DLC's URI. None where the URI does not tell."""

    #: `pytorch` or `tensorflow`.
    framework: str | None = None
    #: As in the tag: `1.13.1`, or `1.13` in an alias.
    framework_version: str | None = None
    transformers_version: str | None = None
    #: `3.9` for `py39`.
    python: str | None = None
    #: `cpu` or `gpu`.
    processor: str | None = None
    #: True for an image of the SageMaker Training Compiler.
    training_compiler: bool = False

    def __str__(self) -> str:
        """Returns a text for a log line: `PyTorch 1.13.1, Python 3.9, GPU, Training Compiler`. Empty if nothing is
        known.
        """
        parts = [
            _join(_NAMES.get(self.framework or ""), self.framework_version),
            self.transformers_version and f"Transformers {self.transformers_version}",
            self.python and f"Python {self.python}",
            self.processor and self.processor.upper(),
            "Training Compiler" if self.training_compiler else None,
        ]
        return ", ".join(part for part in parts if part)


def facts_of(uri: str) -> ImageFacts:
    repository = _REPOSITORY.search(uri)
    if repository is None:
        return ImageFacts()
    tag = repository["tag"] or ""
    python = _PYTHON.search(tag)
    return ImageFacts(
        framework=repository["framework"],
        framework_version=_first(_FRAMEWORK_VERSION, tag),
        transformers_version=_first(_TRANSFORMERS, tag),
        python=".".join(filter(None, python.groups())) if python else None,
        processor=_first(_PROCESSOR, tag),
        training_compiler=repository["compiler"] is not None,
    )


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _join(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)

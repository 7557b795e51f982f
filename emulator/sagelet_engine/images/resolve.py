"""Resolves the image URI of a request to the local image that stands in for it, and to what its name and tag say."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sagelet_engine.images.rules import BUILT_IN, Rule, load_rules, mapped_rules

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


@lru_cache(maxsize=256)
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


#: The rule of a URI that no rule matches.
LITERAL = "literal"


@dataclass(frozen=True)
class Resolution:
    uri: str
    #: The image to run. For the rule `literal` it is the URI itself, and the caller finds out whether there is such an
    #: image. None if a rule refuses the URI; `refusal` then says why.
    local_image: str | None
    #: The name of the rule that decided.
    rule: str
    facts: ImageFacts
    #: A full sentence for the job's FailureReason.
    refusal: str | None = None
    #: The images for a job that has leased GPUs. It gets the first one that exists here.
    gpu_images: tuple[str, ...] = ()
    #: The image for a job without GPUs, if it exists here: one as old as the image that the request names.
    dated_image: str | None = None
    #: The image for a job that asks for Inductor, with GPUs or without, if it exists here.
    inductor_image: str | None = None

    @property
    def is_literal(self) -> bool:
        return self.rule == LITERAL


class Resolver:
    """Resolves image URIs by ordered rules. The first match decides.

    The rules of `sagelet image map` for the data directory come first, then the user's rules file, then sagelet's own.
    """

    def __init__(self, extra_rules_file: Path | None = None, data: Path | None = None) -> None:
        """Raises SettingsError for a bad rules file, and names the file and the rule."""
        own = [] if extra_rules_file is None else load_rules(extra_rules_file)
        self._rules = tuple(own + load_rules(BUILT_IN))
        self._data = data
        self._mapped()

    def resolve(self, uri: str) -> Resolution:
        """Resolves a URI. Raises SettingsError if somebody has broken `image-rules.toml` meanwhile."""
        facts = facts_of(uri)
        for rule in (*self._mapped(), *self._rules):
            if match := rule.pattern.fullmatch(uri):
                refusal = None if rule.refusal is None else _refusal(uri, rule.refusal)
                return Resolution(
                    uri,
                    rule.image_for(match),
                    rule.name,
                    facts,
                    refusal,
                    rule.gpu_images_for(match),
                    rule.dated_image_for(match),
                    rule.inductor_image_for(match),
                )
        return Resolution(uri, uri, LITERAL, facts)

    def _mapped(self) -> list[Rule]:
        return [] if self._data is None else mapped_rules(self._data)


def explain_unmapped(uri: str) -> str:
    """Returns why a job with this image cannot run, and both remedies. No rule matches the URI, and no local image has
    its name.
    """
    return (
        f"No image stands in for {uri}: no rule matches it and no local image has this name. "
        "Load it (`docker pull`, `docker load`, or `docker tag LOCAL_IMAGE` with this name), "
        f"or {_how_to_map(uri)}"
    )


def explain_absent(resolution: Resolution) -> str:
    """Returns why a job cannot run whose URI resolved to a missing image."""
    if resolution.is_literal or resolution.local_image is None:
        return resolution.refusal or explain_unmapped(resolution.uri)
    return (
        f"{resolution.local_image}, which stands in for {resolution.uri} by the rule {resolution.rule}, is not there. "
        f"Build it with `sagelet image build`, or {_how_to_map(resolution.uri)}"
    )


def _refusal(uri: str, reason: str) -> str:
    return f"Nothing stands in for {uri}: {reason.rstrip('.')}. If you have an image that can, {_how_to_map(uri)}"


def _how_to_map(uri: str) -> str:
    return f"map it: `sagelet image map {uri} LOCAL_IMAGE`"

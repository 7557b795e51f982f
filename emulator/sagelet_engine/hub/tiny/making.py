"""A small random model of a family: its configuration, weights and tokenizer."""

import io
import json
import random
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.hub.store import Draft
from sagelet_engine.hub.tiny import byte_level, shapes, unigram, word_pieces
from sagelet_engine.hub.tiny.families import family_of, model_name
from sagelet_engine.hub.tiny.formats import pytorch_file, safetensors_file

#: The spread of random weights with which GPT-2 and BERT begin training.
_DEVIATION = 0.02


@dataclass(frozen=True)
class Family:
    shape: Callable[[int], shapes.Shape]
    #: Returns files of the tokenizer, and its number of tokens. The argument says whether the model's name contains
    #: `uncased`.
    tokenizer: Callable[[bool], tuple[Mapping[str, bytes], int]]


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt2": Family(shapes.gpt2, byte_level.gpt2),
        "bert": Family(shapes.bert, word_pieces.bert),
        "distilbert": Family(shapes.distilbert, word_pieces.distilbert),
        "roberta": Family(shapes.roberta, byte_level.roberta),
        "t5": Family(shapes.t5, unigram.t5),
    }
)


@dataclass(frozen=True)
class TinyModel:
    family: str
    parameters: int
    #: By path.
    files: Mapping[str, bytes]

    def put_in(self, draft: Draft) -> None:
        for path, content in self.files.items():
            draft.put(path, io.BytesIO(content), len(content))


def tiny_model(repository: str, like: str | None = None) -> TinyModel:
    """Makes a model: the same bytes for the same name. Raises SettingsError for an unknown family."""
    name, family = model_name(repository), like or family_of(repository)
    if family not in FAMILIES:
        raise SettingsError(
            f"{like or repository}: belongs to no family that can be made here: name one with --like "
            f"({', '.join(FAMILIES)}), or bring the real one with `sagelet hub add`"
        )
    tokenizer, tokens = FAMILIES[family].tokenizer("uncased" in name)
    shape = FAMILIES[family].shape(tokens)
    weights = _weights(shape, repository)
    files = {
        "config.json": json.dumps(shape.config, indent=2).encode(),
        "model.safetensors": safetensors_file(shape.tensors, weights),
        # Clients from before 2023 know no other format.
        "pytorch_model.bin": pytorch_file(shape.tensors, weights),
        **tokenizer,
    }
    if shape.generation:
        files["generation_config.json"] = json.dumps(shape.generation, indent=2).encode()
    return TinyModel(family, sum(map(prod, shape.tensors.values())), files)


def _weights(shape: shapes.Shape, seed: str) -> dict[str, "array[float]"]:
    """Returns the values of each tensor, row by row: biases are 0, scales of normalizations 1, all others random."""
    chance = random.Random(seed)
    return {name: array("f", _values(name, prod(size), chance)) for name, size in shape.tensors.items()}


def _values(name: str, count: int, chance: random.Random) -> list[float]:
    if name.endswith("bias"):
        return [0.0] * count
    if shapes.is_scale(name):
        return [1.0] * count
    return [chance.gauss(0, _DEVIATION) for _ in range(count)]

"""Small random models: their files, without the libraries that read them (tests/xla/test_tiny_models.py has those)."""

import io
import json
import struct
import zipfile
from math import prod
from typing import Any

import pytest

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.hub.tiny.making import FAMILIES, TinyModel, tiny_model


def tensors(made: TinyModel) -> dict[str, Any]:
    """The head of model.safetensors."""
    data = made.files["model.safetensors"]
    (length,) = struct.unpack("<Q", data[:8])
    head: dict[str, Any] = json.loads(data[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert head.pop("__metadata__") == {"format": "pt"}
    assert max(one["data_offsets"][1] for one in head.values()) == len(data) - 8 - length
    return head


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family(family: str) -> None:
    made = tiny_model(f"org/my-{family}", like=family)
    head = tensors(made)
    assert made.parameters == sum(prod(one["shape"]) for one in head.values()) < 200_000
    config = json.loads(made.files["config.json"])
    assert config["model_type"] == family
    with zipfile.ZipFile(io.BytesIO(made.files["pytorch_model.bin"])) as opened:
        assert {f"archive/data/{number}" for number in range(len(head))} < {*opened.namelist()}
    vocabulary = json.loads(made.files["tokenizer.json"])["model"]["vocab"]
    # The embedding has a row for each token.
    assert len(vocabulary) == config["vocab_size"]


def test_the_same_name_gives_the_same_bytes() -> None:
    assert tiny_model("gpt2") == tiny_model("gpt2")
    assert tiny_model("gpt2").files["model.safetensors"] != tiny_model("gpt2-medium").files["model.safetensors"]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt2", "gpt2"), ("openai-community/gpt2-xl", "gpt2"), ("distilgpt2", "gpt2"), ("bert-base-cased", "bert"),
        ("distilbert-base-uncased", "distilbert"), ("roberta-large", "roberta"), ("distilroberta-base", "roberta"),
        ("T5-small", "t5"),
    ],
)  # fmt: skip
def test_the_family_of_a_name(name: str, family: str) -> None:
    assert tiny_model(name).family == family


@pytest.mark.parametrize(("name", "like"), [("llama", None), ("gpt2", "llama")])
def test_others_say_what_there_is(name: str, like: str | None) -> None:
    with pytest.raises(SettingsError, match=r"gpt2, bert, distilbert, roberta, t5.*`sagelet hub add`"):
        tiny_model(name, like)

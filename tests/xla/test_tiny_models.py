"""Small random models as Transformers and torch read them: every weight has its place, and any text its tokens."""

import math
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.cli import tiny_model as making
from sagelet_api.cli.tiny_model import TinyModel, tiny_model

pytestmark = pytest.mark.xla

TEXT = "Hello the World, a movie was GREAT!"


@pytest.fixture(
    scope="module", params=["gpt2", "bert-base-uncased", "distilbert-base-cased", "roberta-base", "t5-small"]
)
def made(request: pytest.FixtureRequest) -> TinyModel:
    return tiny_model(request.param)


@pytest.fixture
def directory(made: TinyModel, tmp_path: Path) -> Path:
    for path, content in made.files.items():
        (tmp_path / path).write_bytes(content)
    return tmp_path


def test_a_model_is_whole(made: TinyModel, directory: Path) -> None:
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(directory)
    assert (config.model_type, made.parameters < 200_000) == (made.family, True)
    model_class: Any = getattr(transformers, config.architectures[0])
    model, info = model_class.from_pretrained(directory, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["mismatched_keys"]
    # As with the real BERT: the head for the next sentence.
    assert all(key.startswith(("bert.pooler", "cls.seq_relationship")) for key in info["unexpected_keys"])
    known, weights = model.state_dict(), torch.load(directory / "pytorch_model.bin", weights_only=True)
    assert all(torch.equal(known[name], one) for name, one in weights.items() if name in known)
    assert {*weights} - {*known} == {*info["unexpected_keys"]}

    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    assert len(tokenizer) == config.vocab_size
    batch = tokenizer(TEXT, return_tensors="pt")
    shown = tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True)
    assert shown.lower().replace(" ", "") == TEXT.lower().replace(" ", "")
    loss = model(**batch, labels=batch["input_ids"]).loss
    # Nothing is learned: it is as good as a guess.
    assert loss.item() == pytest.approx(math.log(config.vocab_size), rel=0.2)


@pytest.mark.parametrize("made", ["gpt2", "bert-base-uncased", "roberta-base"], indirect=True)
def test_both_kinds_of_tokenizers_agree(directory: Path) -> None:
    import transformers

    both = [transformers.AutoTokenizer.from_pretrained(directory, use_fast=fast) for fast in (True, False)]
    assert both[0](TEXT)["input_ids"] == both[1](TEXT)["input_ids"]


def test_it_is_the_same_for_the_same_name() -> None:
    first, again, other = (tiny_model(name) for name in ("gpt2", "gpt2", "gpt2-medium"))
    assert first == again
    assert first.files["model.safetensors"] != other.files["model.safetensors"]


@pytest.mark.docker
def test_without_transformers_here_the_training_image_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    here = tiny_model("gpt2")
    monkeypatch.setattr(making, "NEEDED", ("sagelet_has_no_such_module",))
    there = tiny_model("gpt2")
    assert there.files.keys() == here.files.keys()
    assert (there.parameters, there.files["vocab.json"]) == (here.parameters, here.files["vocab.json"])

"""Small random models: whose family a name says, and where they cannot be made (tests/xla reads the models)."""

import json
import sys
from pathlib import Path

import pytest

from sagelet_api.cli import tiny_model as making
from sagelet_api.cli.tiny_model import ModelNotMade, tiny_model
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.hub.families import family_of


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt2", "gpt2"), ("openai-community/gpt2-xl", "gpt2"), ("distilgpt2", "gpt2"), ("bert-base-cased", "bert"),
        ("distilbert-base-uncased", "distilbert"), ("roberta-large", "roberta"), ("distilroberta-base", "roberta"),
        ("T5-small", "t5"),
    ],
)  # fmt: skip
def test_the_family_of_a_name(name: str, family: str) -> None:
    assert family_of(name) == family


@pytest.mark.parametrize(("name", "like"), [("llama", None), ("gpt2", "llama")])
def test_others_say_what_there_is(name: str, like: str | None) -> None:
    with pytest.raises(SettingsError, match=r"gpt2, bert, distilbert, roberta, t5.*`sagelet hub add`"):
        tiny_model(name, like)


@pytest.mark.xla
def test_a_model_is_small_and_has_the_files_that_clients_ask_for() -> None:
    made = tiny_model("org/my-gpt2", "gpt2")
    assert (made.family, made.parameters < 200_000) == ("gpt2", True)
    vocabulary = json.loads(made.files["tokenizer.json"])["model"]["vocab"]
    # The embedding has a row for each token.
    assert len(vocabulary) == json.loads(made.files["config.json"])["vocab_size"]
    assert sorted(made.files) == [
        "config.json", "generation_config.json", "merges.txt", "model.safetensors", "pytorch_model.bin",
        "tokenizer.json", "tokenizer_config.json", "vocab.json",
    ]  # fmt: skip


def test_without_transformers_it_says_what_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "NEEDED", ("sagelet_has_no_such_module",))
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(SettingsError, match=rf"{sys.executable}.*`sagelet install-torch` or `sagelet image build`"):
        tiny_model("gpt2")


def test_a_program_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(making, "NEEDED", ())
    monkeypatch.setattr(making, "SCRIPT", tmp_path / "script.py")
    making.SCRIPT.write_text("raise OSError('no room')")
    with pytest.raises(ModelNotMade, match="no room"):
        tiny_model("gpt2")


def test_modules_in_the_working_directory_are_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(making, "NEEDED", ())
    monkeypatch.setattr(making, "SCRIPT", tmp_path / "script.py")
    making.SCRIPT.write_text("import tokens_of_a_user")
    (tmp_path / "tokens_of_a_user.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotMade, match="No module named 'tokens_of_a_user'"):
        tiny_model("gpt2")

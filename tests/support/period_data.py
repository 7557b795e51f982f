"""Writes models of two layers of 32 and a few dozen rows, in the forms that training scripts of 2021 to 2024 read."""

import json
import random
from pathlib import Path
from typing import Any

WORDS = (
    "a",
    "the",
    "cat",
    "dog",
    "bird",
    "sat",
    "ran",
    "flew",
    "on",
    "under",
    "over",
    "red",
    "blue",
    "big",
    "small",
    "mat",
    "tree",
    "sky",
    "good",
    "bad",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: Without dropout, because XLA draws other random numbers than torch's CPU generator.
BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def write(directory: Path) -> None:
    """Writes all data. Each folder of `directory` is a channel."""
    chance = random.Random(5)
    _model(directory / "model")
    for channel, count in (("train", 16), ("test", 8)):
        _lines(directory / channel / "data.json", [_review(chance) for _ in range(count)])
    _text(directory / "text", chance)
    for split, count in (("train", 16), ("validation", 16), ("ragged", 10)):
        _lines(directory / "pairs" / f"{split}.json", [_pair(chance) for _ in range(count)])
    for split, count in (("train", 16), ("dev", 10)):
        _squad(directory / "squad" / f"{split}.json", chance, count)


def _model(directory: Path) -> None:
    """Writes a classifier. A head that a script adds itself would have other weights in each process."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    directory.mkdir(parents=True)
    torch.manual_seed(11)
    vocabulary = [*SPECIAL, *WORDS]
    model = BertForSequenceClassification(BertConfig(**BERT, vocab_size=len(vocabulary)))
    model.save_pretrained(directory)
    (directory / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    kind = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 64}
    (directory / "tokenizer_config.json").write_text(json.dumps(kind))


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS[:-2], k=count))


def _review(chance: random.Random) -> dict[str, Any]:
    label = chance.randint(0, 1)
    return {"text": f"{_words(chance, 5)} {('bad', 'good')[label]} {_words(chance, 3)}", "label": label}


def _pair(chance: random.Random) -> dict[str, Any]:
    label = chance.randint(0, 1)
    first = _words(chance, chance.randint(4, 8))
    return {"sentence1": first, "sentence2": first if label else _words(chance, 6), "label": label}


def _text(directory: Path, chance: random.Random) -> None:
    directory.mkdir()
    for split, count in (("train", 400), ("validation", 160)):
        (directory / f"{split}.txt").write_text(" ".join(_words(chance, 1) for _ in range(count)) + "\n")


def _squad(file: Path, chance: random.Random, count: int) -> None:
    paragraphs = []
    for index in range(count):
        context = _words(chance, 12)
        answer = context.split()[chance.randrange(12)]
        answers = [{"text": answer, "answer_start": f" {context} ".index(f" {answer} ")}]
        asked = {"id": str(index), "question": f"the {answer}", "answers": answers}
        paragraphs.append({"context": context, "qas": [asked]})
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"version": "1.1", "data": [{"title": "cats", "paragraphs": paragraphs}]}))


def _lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

"""WordPiece, as in BERT and DistilBERT. Words are split into letters; a letter that is not ASCII is unknown."""

import json
import string
from collections.abc import Mapping

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.hub.tiny.words import WORDS

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def bert(uncased: bool) -> tuple[Mapping[str, bytes], int]:
    """Returns files and the number of tokens."""
    return _files("BertTokenizer", uncased)


def distilbert(uncased: bool) -> tuple[Mapping[str, bytes], int]:
    """Returns files and the number of tokens."""
    return _files("DistilBertTokenizer", uncased)


def _files(name: str, uncased: bool) -> tuple[dict[str, bytes], int]:
    letters = string.ascii_lowercase if uncased else string.ascii_letters
    words = [word.lower() if uncased else word for word in WORDS]
    inner = [f"##{one}" for one in letters + string.digits]
    tokens = list(dict.fromkeys([*_SPECIAL, *letters, *string.digits, *string.punctuation, *inner, *words]))
    numbers = {token: number for number, token in enumerate(tokens)}
    config = {
        "tokenizer_class": name,
        "do_lower_case": uncased,
        "model_max_length": 512,
        **{f"{token.strip('[]').lower()}_token": token for token in _SPECIAL},
    }
    files = {
        "vocab.txt": "\n".join([*tokens, ""]).encode(),
        "tokenizer.json": json.dumps(_fast(numbers, uncased)).encode(),
        "tokenizer_config.json": json.dumps(config, indent=2).encode(),
    }
    return files, len(tokens)


def _fast(numbers: Mapping[str, int], uncased: bool) -> JsonObject:
    def special(token: str, kind: int) -> JsonObject:
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def text(name: str, kind: int) -> JsonObject:
        return {"Sequence": {"id": name, "type_id": kind}}

    single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": numbers[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in _SPECIAL
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": uncased,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, text("B", 1), special("[SEP]", 1)],
            "special_tokens": {
                token: {"id": token, "ids": [numbers[token]], "tokens": [token]} for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": dict(numbers),
        },
    }

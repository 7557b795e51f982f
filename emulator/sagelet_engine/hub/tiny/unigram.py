"""SentencePiece's unigram model: T5's. Written for the fast tokenizer (JSON) and for SentencePiece itself (protobuf).

Source of the fields: sentencepiece_model.proto.
"""

import json
import string
import struct
from collections.abc import Mapping

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.hub.tiny.words import WORDS

_SPACE = "\u2581"
_SPECIAL = ("<pad>", "</s>", "<unk>")
#: T5 masks stretches of a text by these tokens.
_EXTRA = 100
#: SentencePiece.Type
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


def t5(_uncased: bool) -> tuple[Mapping[str, bytes], int]:
    """Returns files and the number of tokens."""
    pieces = _pieces()
    extra = [f"<extra_id_{number}>" for number in range(_EXTRA)]
    config = {
        "tokenizer_class": "T5Tokenizer",
        "model_max_length": 512,
        "extra_ids": _EXTRA,
        "additional_special_tokens": extra,
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    files = {
        "spiece.model": _model(pieces),
        "tokenizer.json": json.dumps(_fast(pieces, extra), ensure_ascii=False).encode(),
        "tokenizer_config.json": json.dumps(config, indent=2).encode(),
    }
    return files, len(pieces) + _EXTRA


def _pieces() -> list[tuple[str, float]]:
    """Returns the vocabulary: each piece and its log probability. A word has a higher one than its letters."""
    words = [f"{_SPACE}{word}" for word in dict.fromkeys(WORDS)]
    letters = [_SPACE, *string.ascii_letters, *string.digits, *string.punctuation]
    return [*((one, 0.0) for one in _SPECIAL), *((one, -3.0) for one in words), *((one, -6.0) for one in letters)]


def _fast(pieces: list[tuple[str, float]], extra: list[str]) -> JsonObject:
    # T5 counts these backwards from the end.
    numbered = {token: len(pieces) + _EXTRA - 1 - number for number, token in enumerate(extra)}
    added = {token: number for number, token in enumerate(_SPECIAL)} | numbered
    space = {"type": "Metaspace", "replacement": _SPACE, "add_prefix_space": True}
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    vocabulary = [[piece, score] for piece, score in pieces] + [[token, 0.0] for token in reversed(extra)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token, number in sorted(added.items(), key=lambda one: one[1])
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, end],
            "pair": [first, end, second, end],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
        },
        "decoder": space,
        "model": {"type": "Unigram", "unk_id": 2, "vocab": vocabulary},
    }


def _model(pieces: list[tuple[str, float]]) -> bytes:
    """Returns a ModelProto: pieces (1), trainer_spec (2), normalizer_spec (3)."""
    kinds = {"<unk>": _UNKNOWN, "<pad>": _CONTROL, "</s>": _CONTROL}
    written = [
        _nested(
            1, _nested(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kinds.get(piece, _NORMAL))
        )
        for piece, score in pieces
    ]
    # model_type: unigram; the ids of <unk>, <s> (none), </s>, <pad>.
    trainer = _number(3, 1) + _number(40, 2) + _number(41, -1) + _number(42, 1) + _number(43, 0)
    trainer += _number(4, len(pieces))
    normalizer = _nested(1, b"identity")
    return b"".join(written) + _nested(2, trainer) + _nested(3, normalizer)


def _nested(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value % (1 << 64))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])

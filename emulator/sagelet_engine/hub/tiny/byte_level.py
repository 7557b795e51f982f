"""Byte-level BPE, as in GPT-2 and RoBERTa. Every text is made of bytes, so nothing is unknown."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sagelet_engine.hub.tiny.words import WORDS

_END = "<|endoftext|>"
_SPACE = "\u0120"


def gpt2(_uncased: bool) -> tuple[Mapping[str, bytes], int]:
    """Returns files and the number of tokens."""
    merges = _merges()
    vocabulary = _numbered([*_bytes(), *map("".join, merges), _END])
    config = {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": 1024,
        "bos_token": _END,
        "eos_token": _END,
        "unk_token": _END,
        "add_prefix_space": False,
    }
    post = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    return _files(vocabulary, merges, config, [_END], post), len(vocabulary)


def roberta(_uncased: bool) -> tuple[Mapping[str, bytes], int]:
    """Returns files and the number of tokens."""
    merges, special = _merges(), ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = _numbered([*special, *_bytes(), *map("".join, merges), "<mask>"])
    config = {
        "tokenizer_class": "RobertaTokenizer",
        "model_max_length": 512,
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "add_prefix_space": False,
    }
    post = {
        "type": "RobertaProcessing",
        "sep": ["</s>", 2],
        "cls": ["<s>", 0],
        "trim_offsets": True,
        "add_prefix_space": False,
    }
    return _files(vocabulary, merges, config, [*special, "<mask>"], post), len(vocabulary)


def _files(
    vocabulary: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    config: Mapping[str, Any],
    special: Sequence[str],
    post_processor: Mapping[str, Any],
) -> dict[str, bytes]:
    joined = [" ".join(pair) for pair in merges]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    fast = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": vocabulary[token],
                "content": token,
                "single_word": False,
                # A mask takes the space before it.
                "lstrip": token == "<mask>",
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in special
        ],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": dict(post_processor),
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "vocab": dict(vocabulary),
            "merges": joined,
        },
    }
    return {
        "vocab.json": json.dumps(vocabulary, ensure_ascii=False).encode(),
        "merges.txt": "\n".join(["#version: 0.2", *joined, ""]).encode(),
        "tokenizer.json": json.dumps(fast, ensure_ascii=False).encode(),
        "tokenizer_config.json": json.dumps(config, indent=2).encode(),
    }


def _bytes() -> list[str]:
    """Returns a character for each byte: the byte itself if it is visible, otherwise one from 256 on (GPT-2's
    `bytes_to_unicode`).
    """
    seen = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return [chr(byte) for byte in seen] + [chr(256 + place) for place in range(len(others))]


def _merges() -> list[tuple[str, str]]:
    """Returns the merges. Each word grows letter by letter; its first letter is the space before it."""
    found: dict[tuple[str, str], None] = {}
    for word in WORDS:
        grown = _SPACE
        for letter in word:
            found.setdefault((grown, letter))
            grown += letter
    return list(found)


def _numbered(tokens: Sequence[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}

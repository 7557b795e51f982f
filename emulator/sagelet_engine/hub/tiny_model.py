"""Makes a small random model, by the Transformers of the Python that runs it: `tiny_model.py FAMILY NAME DIRECTORY`.

Prints the number of parameters. `sagelet hub make-tiny` runs the text of this file in the jobs' own Python, here or in
the training image. The same name gives the same weights. Widths and depths are small; the number of positions and the
special tokens are those of the real models. Tokenizers are written in the files that clients of every year read.
"""

import hashlib
import json
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

_TEXT = """
the of and to in is it that was for on with as be at by this have from or one had not but what all were when we
there can an your which their said if do will each about how up out them then she he his her has him see time could
no make than first been its who now people my made over did down only way find use may water long little very after
words called just where most know get through back much good new write our me man too any day same right look think
also around another came come work three word must because does part even place well such here take why help put
different away again off went old number great tell men say small every found still between name should home big
give air line set own under read last never us left end along while might next sound below saw something thought
both few those always show large often together asked house world going want school important until form food keep
children feet land side without boy once animals life enough took four head above kind began almost live page got
movie film story bad best better love funny characters director acting question answer sentence context positive
negative true false entailment contradiction neutral translate English German French summarize
"""
#: Words that are one token. All other words are split.
WORDS = tuple(_TEXT.split())
_BERT: dict[str, object] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
#: What differs from the configuration that Transformers has for a family.
SIZES: dict[str, dict[str, object]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2},
    "bert": _BERT,
    "distilbert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2},
    "roberta": {**_BERT, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-05},
    "t5": {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0},
}


def main(family: str, name: str, directory: Path) -> None:
    transformers.logging.set_verbosity_error()
    torch.manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
    directory.mkdir(exist_ok=True)
    tokens = TOKENIZERS[family](directory, "uncased" in name.lower())
    last = {"bos_token_id": tokens - 1, "eos_token_id": tokens - 1} if family == "gpt2" else {}
    config = transformers.AutoConfig.for_model(family, vocab_size=tokens, **SIZES[family], **last)
    model = transformers.AutoModelForPreTraining.from_config(config)
    model.save_pretrained(directory)
    # Clients from before 2023 know no other format.
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    if family == "bert":
        # The real model's configuration names this class, although its weights also have a head for the next sentence.
        model.config.architectures = ["BertForMaskedLM"]
        model.config.save_pretrained(directory)
    if family != "t5":
        _write(directory, "tokenizer.json", _fast(directory))
    print(model.num_parameters())


def _fast(directory: Path) -> str:
    """Returns a tokenizer for the library tokenizers, as its releases of every year read it."""
    tokenizer: dict[str, Any] = json.loads(
        transformers.AutoTokenizer.from_pretrained(directory).backend_tokenizer.to_str()
    )
    model = tokenizer["model"]
    for name in ("byte_fallback", "ignore_merges"):  # both are off, and older releases stop at them
        model.pop(name, None)
    if "merges" in model:
        model["merges"] = [" ".join(merge) for merge in model["merges"]]
    return json.dumps(tokenizer, ensure_ascii=False)


def gpt2(directory: Path, _uncased: bool) -> int:
    """Writes a tokenizer and returns the number of its tokens. Bytes are known, so every text is."""
    return _byte_level(directory, "GPT2Tokenizer", 1024, [], ["<|endoftext|>"])


def roberta(directory: Path, _uncased: bool) -> int:
    return _byte_level(directory, "RobertaTokenizer", 512, ["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])


def _byte_level(directory: Path, name: str, length: int, before: list[str], after: list[str]) -> int:
    # A word grows letter by letter, and begins with the space before it.
    merges = dict.fromkeys((f"\u0120{word[:at]}", word[at]) for word in WORDS for at in range(len(word)))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = list(dict.fromkeys([*before, *alphabet, *map("".join, merges), *after]))
    _write(directory, "vocab.json", json.dumps({token: number for number, token in enumerate(tokens)}))
    _write(directory, "merges.txt", "\n".join(["#version: 0.2", *map(" ".join, merges), ""]))
    _configure(directory, tokenizer_class=name, model_max_length=length)
    return len(tokens)


def bert(directory: Path, uncased: bool, name: str = "BertTokenizer") -> int:
    """Writes a tokenizer. Words are split into letters; one that is not ASCII is unknown."""
    letters = string.digits + (string.ascii_lowercase if uncased else string.ascii_letters)
    words = [word.lower() if uncased else word for word in WORDS]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = dict.fromkeys([*special, *letters, *string.punctuation, *(f"##{one}" for one in letters), *words])
    _write(directory, "vocab.txt", "\n".join([*tokens, ""]))
    _configure(directory, tokenizer_class=name, model_max_length=512, do_lower_case=uncased)
    return len(tokens)


def distilbert(directory: Path, uncased: bool) -> int:
    return bert(directory, uncased, "DistilBertTokenizer")


def t5(directory: Path, _uncased: bool) -> int:
    """Writes a tokenizer. It begins a word with a mark, and a whole word is likelier than its letters."""
    letters = ["\u2581", *string.ascii_letters, *string.digits, *string.punctuation]
    words = dict.fromkeys(f"\u2581{word}" for word in WORDS)
    # T5 masks stretches of a text by the last tokens, which it counts backwards.
    extra = [f"<extra_id_{number}>" for number in reversed(range(100))]
    special = [(token, 0.0) for token in ("<pad>", "</s>", "<unk>")]
    pieces = [*special, *((word, -3.0) for word in words), *((one, -6.0) for one in letters)]
    tokenizer = Tokenizer(models.Unigram([*pieces, *((token, 0.0) for token in extra)], unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    whole = transformers.T5TokenizerFast(tokenizer_object=tokenizer, extra_ids=100, model_max_length=512)
    whole.save_pretrained(directory)
    return len(whole)


def _configure(directory: Path, **settings: object) -> None:
    _write(directory, "tokenizer_config.json", json.dumps(settings, indent=2))


def _write(directory: Path, name: str, text: str) -> None:
    (directory / name).write_text(text, encoding="utf-8")


TOKENIZERS: dict[str, Callable[[Path, bool], int]] = {
    "gpt2": gpt2,
    "bert": bert,
    "distilbert": distilbert,
    "roberta": roberta,
    "t5": t5,
}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

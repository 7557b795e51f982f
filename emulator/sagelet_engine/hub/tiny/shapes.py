"""Configurations and tensors of families, as Transformers saves them.

Widths and depths are small. The number of positions and the special tokens are those of the real model.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sagelet_engine.base.wire import JsonObject

WIDTH, INNER, LAYERS, HEADS = 32, 64, 2, 2
_SCALE = re.compile(r".*(norm|ln_\w+)\.weight", re.IGNORECASE)

Tensors = Iterator[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Shape:
    config: Mapping[str, Any]
    #: Sizes by name, in the order of the model.
    tensors: Mapping[str, tuple[int, ...]]
    generation: Mapping[str, Any] = field(default_factory=dict)


def is_scale(name: str) -> bool:
    """True if a tensor scales the result of a normalization."""
    return _SCALE.fullmatch(name) is not None


def gpt2(tokens: int) -> Shape:
    end = tokens - 1
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "attn_pdrop": 0.1,
        "bos_token_id": end,
        "embd_pdrop": 0.1,
        "eos_token_id": end,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "n_ctx": 1024,
        "n_embd": WIDTH,
        "n_head": HEADS,
        "n_layer": LAYERS,
        "n_positions": 1024,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "vocab_size": tokens,
    }

    def tensors() -> Tensors:
        yield "transformer.wte.weight", (tokens, WIDTH)
        yield "transformer.wpe.weight", (1024, WIDTH)
        for layer in range(LAYERS):
            at = f"transformer.h.{layer}"
            yield from _norm(f"{at}.ln_1")
            # Conv1D: the input is the first dimension.
            yield from _sized(f"{at}.attn.c_attn", (WIDTH, 3 * WIDTH), 3 * WIDTH)
            yield from _sized(f"{at}.attn.c_proj", (WIDTH, WIDTH), WIDTH)
            yield from _norm(f"{at}.ln_2")
            yield from _sized(f"{at}.mlp.c_fc", (WIDTH, 4 * WIDTH), 4 * WIDTH)
            yield from _sized(f"{at}.mlp.c_proj", (4 * WIDTH, WIDTH), WIDTH)
        yield from _norm("transformer.ln_f")

    return Shape(config, dict(tensors()), {"bos_token_id": end, "eos_token_id": end})


def bert(tokens: int) -> Shape:
    config = {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        **_like_bert(tokens, 512, 2),
        "pad_token_id": 0,
    }

    def tensors() -> Tensors:
        yield from _bert_body("bert", tokens, 512, 2)
        yield from _linear("bert.pooler.dense", WIDTH, WIDTH)
        yield "cls.predictions.bias", (tokens,)
        yield from _linear("cls.predictions.transform.dense", WIDTH, WIDTH)
        yield from _norm("cls.predictions.transform.LayerNorm")
        yield from _linear("cls.seq_relationship", WIDTH, 2)

    return Shape(config, dict(tensors()))


def roberta(tokens: int) -> Shape:
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = {
        "architectures": ["RobertaForMaskedLM"],
        "model_type": "roberta",
        **_like_bert(tokens, 514, 1),
        "layer_norm_eps": 1e-05,
        **special,
    }

    def tensors() -> Tensors:
        yield from _bert_body("roberta", tokens, 514, 1)
        yield "lm_head.bias", (tokens,)
        yield from _linear("lm_head.dense", WIDTH, WIDTH)
        yield from _norm("lm_head.layer_norm")

    return Shape(config, dict(tensors()))


def distilbert(tokens: int) -> Shape:
    config = {
        "architectures": ["DistilBertForMaskedLM"],
        "model_type": "distilbert",
        "activation": "gelu",
        "attention_dropout": 0.1,
        "dim": WIDTH,
        "dropout": 0.1,
        "hidden_dim": INNER,
        "initializer_range": 0.02,
        "max_position_embeddings": 512,
        "n_heads": HEADS,
        "n_layers": LAYERS,
        "pad_token_id": 0,
        "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2,
        "sinusoidal_pos_embds": False,
        "tie_weights_": True,
        "vocab_size": tokens,
    }

    def tensors() -> Tensors:
        yield "distilbert.embeddings.word_embeddings.weight", (tokens, WIDTH)
        yield "distilbert.embeddings.position_embeddings.weight", (512, WIDTH)
        yield from _norm("distilbert.embeddings.LayerNorm")
        for layer in range(LAYERS):
            at = f"distilbert.transformer.layer.{layer}"
            for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
                yield from _linear(f"{at}.attention.{name}", WIDTH, WIDTH)
            yield from _norm(f"{at}.sa_layer_norm")
            yield from _linear(f"{at}.ffn.lin1", WIDTH, INNER)
            yield from _linear(f"{at}.ffn.lin2", INNER, WIDTH)
            yield from _norm(f"{at}.output_layer_norm")
        yield from _linear("vocab_transform", WIDTH, WIDTH)
        yield from _norm("vocab_layer_norm")
        yield "vocab_projector.bias", (tokens,)

    return Shape(config, dict(tensors()))


def t5(tokens: int) -> Shape:
    special = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    width = WIDTH // HEADS
    config = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "d_ff": INNER,
        "d_kv": width,
        "d_model": WIDTH,
        "dropout_rate": 0.1,
        "feed_forward_proj": "relu",
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06,
        "n_positions": 512,
        "num_decoder_layers": LAYERS,
        "num_heads": HEADS,
        "num_layers": LAYERS,
        "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": tokens,
        **special,
    }

    def attention(at: str, kind: str, *, relative: bool) -> Tensors:
        for name in ("q", "k", "v"):
            yield f"{at}.{kind}.{name}.weight", (HEADS * width, WIDTH)
        yield f"{at}.{kind}.o.weight", (WIDTH, HEADS * width)
        if relative:
            yield f"{at}.{kind}.relative_attention_bias.weight", (32, HEADS)
        yield f"{at}.layer_norm.weight", (WIDTH,)

    def stack(name: str, kinds: tuple[str, ...]) -> Tensors:
        for block in range(LAYERS):
            at = f"{name}.block.{block}.layer"
            for place, kind in enumerate(kinds):
                yield from attention(f"{at}.{place}", kind, relative=block == place == 0)
            last = f"{at}.{len(kinds)}"
            yield f"{last}.DenseReluDense.wi.weight", (INNER, WIDTH)
            yield f"{last}.DenseReluDense.wo.weight", (WIDTH, INNER)
            yield f"{last}.layer_norm.weight", (WIDTH,)
        yield f"{name}.final_layer_norm.weight", (WIDTH,)

    def tensors() -> Tensors:
        yield "shared.weight", (tokens, WIDTH)
        yield from stack("encoder", ("SelfAttention",))
        yield from stack("decoder", ("SelfAttention", "EncDecAttention"))

    return Shape(config, dict(tensors()), special)


def _like_bert(tokens: int, positions: int, types: int) -> JsonObject:
    return {
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": WIDTH,
        "initializer_range": 0.02,
        "intermediate_size": INNER,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": positions,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "position_embedding_type": "absolute",
        "type_vocab_size": types,
        "use_cache": True,
        "vocab_size": tokens,
    }


def _bert_body(name: str, tokens: int, positions: int, types: int) -> Tensors:
    yield f"{name}.embeddings.word_embeddings.weight", (tokens, WIDTH)
    yield f"{name}.embeddings.position_embeddings.weight", (positions, WIDTH)
    yield f"{name}.embeddings.token_type_embeddings.weight", (types, WIDTH)
    yield from _norm(f"{name}.embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"{name}.encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _linear(f"{at}.attention.{part}", WIDTH, WIDTH)
        yield from _norm(f"{at}.attention.output.LayerNorm")
        yield from _linear(f"{at}.intermediate.dense", WIDTH, INNER)
        yield from _linear(f"{at}.output.dense", INNER, WIDTH)
        yield from _norm(f"{at}.output.LayerNorm")


def _linear(name: str, inputs: int, outputs: int) -> Tensors:
    yield from _sized(name, (outputs, inputs), outputs)


def _sized(name: str, size: tuple[int, int], bias: int) -> Tensors:
    yield f"{name}.weight", size
    yield f"{name}.bias", (bias,)


def _norm(name: str) -> Tensors:
    yield f"{name}.weight", (WIDTH,)
    yield f"{name}.bias", (WIDTH,)

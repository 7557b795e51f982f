"""GPT-2's structure with almost nothing to compute: a step's time is what the host does. The scripts here train it."""

import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH, VOCABULARY = 8, 64
STEPS, LAYERS = (int(os.environ[name]) for name in ("STEPS", "LAYERS"))


def make() -> GPT2LMHeadModel:
    """Returns a model of 12 parameters a layer and 4 more, from one seed. It has no dropout, so losses compare."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=LAYERS, n_embd=32, n_head=2, n_positions=LENGTH, vocab_size=VOCABULARY,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        )
    )  # fmt: skip


def rows() -> list[dict[str, torch.Tensor]]:
    """Returns a row for each step."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (STEPS, LENGTH), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]

"""The fixed set of models: what each is made of, and its batches. No dropout: the devices' random numbers differ."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Net:
    model: nn.Module
    #: The loss of a batch.
    loss: Callable[[Batch], Tensor]
    #: One batch.
    batch: Callable[[torch.Generator], Batch]

    def batches(self, seed: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(seed)
        while True:
            yield self.batch(generator)


def make(name: str, *, small: bool, seed: int = 0) -> Net:
    torch.manual_seed(seed)
    net = NETS[name](small)
    net.model.train()
    return net


def gpt2(small: bool) -> Net:
    layers, width, length, words, rows = (2, 32, 16, 100, 4) if small else (4, 256, 128, 5000, 8)
    model = GPT2LMHeadModel(
        GPT2Config(
            n_layer=layers, n_embd=width, n_head=width // 16, n_positions=length, vocab_size=words, use_cache=False,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        )
    )  # fmt: skip

    def batch(generator: torch.Generator) -> Batch:
        tokens = torch.randint(0, words, (rows, length), generator=generator)
        return {"input_ids": tokens, "labels": tokens}

    return Net(model, lambda data: model(**data).loss, batch)


def bert(small: bool) -> Net:
    layers, width, length, words, rows = (2, 32, 16, 100, 4) if small else (4, 256, 128, 5000, 8)
    model = BertForMaskedLM(
        BertConfig(
            num_hidden_layers=layers, hidden_size=width, num_attention_heads=width // 16, intermediate_size=4 * width,
            max_position_embeddings=length, vocab_size=words, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        )
    )  # fmt: skip
    mask = 3

    def batch(generator: torch.Generator) -> Batch:
        tokens = torch.randint(5, words, (rows, length), generator=generator)
        chosen = torch.rand(tokens.shape, generator=generator) < 0.15
        chosen[:, 0] = True
        return {"input_ids": tokens.masked_fill(chosen, mask), "labels": tokens.masked_fill(~chosen, -100)}

    return Net(model, lambda data: model(**data).loss, batch)


def mlp(small: bool) -> Net:
    width, hidden, rows = (20, 32, 16) if small else (784, 1024, 128)
    model = nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10)
    )
    return Net(model, lambda data: functional.cross_entropy(model(data["x"]), data["y"]), _classes(rows, width))


def conv(small: bool) -> Net:
    widths, side, rows = ((4, 8), 8, 8) if small else ((32, 64, 128), 32, 32)
    layers: list[nn.Module] = []
    for inner, outer in zip((3, *widths), widths, strict=False):
        # No bias before batch norm: its gradient is rounding and nothing else, which Adam makes whole steps of.
        layers += [nn.Conv2d(inner, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))
    return Net(model, lambda data: functional.cross_entropy(model(data["x"]), data["y"]), _classes(rows, 3, side, side))


def _classes(rows: int, *shape: int) -> Callable[[torch.Generator], Batch]:
    def batch(generator: torch.Generator) -> Batch:
        x = torch.randn((rows, *shape), generator=generator)
        return {"x": x, "y": torch.randint(0, 10, (rows,), generator=generator)}

    return batch


class Tagger(nn.Module):  # type: ignore[misc]
    def __init__(self, words: int, width: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, words)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.lstm(self.embedding(tokens))[0])
        return scores


def lstm(small: bool) -> Net:
    """A short sequence: torch_xla unrolls nn.LSTM, and compiles for two minutes at 64 steps."""
    words, width, hidden, length, rows = (50, 16, 16, 4, 4) if small else (1000, 128, 256, 16, 16)
    model = Tagger(words, width, hidden)

    def batch(generator: torch.Generator) -> Batch:
        return {"x": torch.randint(0, words, (rows, length + 1), generator=generator)}

    def loss(data: Batch) -> Tensor:
        x = data["x"]
        return functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    return Net(model, loss, batch)


NETS: dict[str, Callable[[bool], Net]] = {"gpt2": gpt2, "bert": bert, "mlp": mlp, "conv": conv, "lstm": lstm}

"""Pads all batches to the same length. (dynamic-shapes)"""

import random

import torch
import torch_xla.core.xla_model as xm
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = {"[PAD]": 0} | {f"w{number}": number for number in range(1, 100)}
rules = Tokenizer(models.WordLevel(words, unk_token="[PAD]"))
rules.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=rules, pad_token="[PAD]")
random.seed(0)
texts = [" ".join(random.choices(list(words)[1:], k=random.randint(4, 40))) for _ in range(1600)]


def collate(batch):
    return tokenizer(batch, padding="max_length", max_length=40, truncation=True, return_tensors="pt")["input_ids"]


device = xm.xla_device()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.Linear(64, 256), torch.nn.Linear(256, 100)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(texts, batch_size=4, collate_fn=collate, drop_last=True):
    tokens = batch.to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)

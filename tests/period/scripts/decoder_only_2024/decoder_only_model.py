"""A small decoder: grouped-query attention, RMSNorm, SiLU."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class DecoderOnlyConfig:
    hidden_size: int = 32
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    intermediate_size: int = 64
    vocab_size: int = 100


class RMSNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class GroupQueryAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.hidden_size // self.heads
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x):
        batch, length, _ = x.size()

        def split(states, heads):
            states = states.view(batch, length, heads, self.head_dim).transpose(1, 2)
            return states.repeat_interleave(self.heads // heads, dim=1)

        query = split(self.q_proj(x), self.heads)
        key, value = split(self.k_proj(x), self.kv_heads), split(self.v_proj(x), self.kv_heads)
        weights = F.softmax(query @ key.transpose(2, 3) / math.sqrt(self.head_dim), dim=-1)
        return self.o_proj((weights @ value).transpose(1, 2).reshape(batch, length, -1))


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = GroupQueryAttention(config)
        self.gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.before = RMSNorm(config.hidden_size)
        self.between = RMSNorm(config.hidden_size)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        inner = self.between(x)
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))


class DecoderOnlyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))

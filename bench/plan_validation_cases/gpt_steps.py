# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A GPT of 124 M parameters whose parts are replaced one by one: written by hand, causal mask made in the call, bf16, PyTorch's own
LayerNorm and GELU, PyTorch's attention, torch.compile.

    python gpt_steps.py --mask kept --blocks own --attention own --dtype float32 --batch 8
"""

import argparse
import math

import counters
import torch
from torch import nn

LENGTH, WIDTH, HEADS, DEPTH, DROPOUT = 1024, 768, 12, 12, 0.1


class OwnNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean, variance = x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True, unbiased=False)
        normed = (x - mean) / torch.sqrt(variance + 1e-5)
        return self.scale * normed + self.shift


class OwnGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / math.pi)) * (x + 0.044715 * torch.pow(x, 3))))


class OwnAttention(nn.Module):
    """Scores, mask, softmax and dropout one after the other."""

    def __init__(self, mask):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.projection, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout(DROPOUT)
        if mask == "kept":
            self.register_buffer("mask", torch.triu(torch.ones(LENGTH, LENGTH), diagonal=1))

    def mask_of(self, length, device):
        if hasattr(self, "mask"):
            return self.mask.bool()[:length, :length]
        return torch.triu(torch.ones(length, length, dtype=torch.bool, device=device), diagonal=1)

    def forward(self, x):
        batch, length, _ = x.shape
        keys = self.key(x).view(batch, length, HEADS, -1).transpose(1, 2)
        queries = self.query(x).view(batch, length, HEADS, -1).transpose(1, 2)
        values = self.value(x).view(batch, length, HEADS, -1).transpose(1, 2)
        scores = queries @ keys.transpose(2, 3)
        scores.masked_fill_(self.mask_of(length, x.device), -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        return self.projection((weights @ values).transpose(1, 2).reshape(batch, length, WIDTH))


class TorchAttention(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        queries, keys, values = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        drop = DROPOUT if self.training else 0.0
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values, dropout_p=drop, is_causal=True)
        return self.projection(mixed.transpose(1, 2).contiguous().view(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self, asked):
        super().__init__()
        norm = OwnNorm if asked.blocks == "own" else nn.LayerNorm
        gelu = OwnGelu() if asked.blocks == "own" else nn.GELU(approximate="tanh")
        self.attention = (OwnAttention if asked.attention == "own" else TorchAttention)(asked.mask)
        self.layers = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH))
        self.norm1, self.norm2, self.dropout = norm(WIDTH), norm(WIDTH), nn.Dropout(DROPOUT)

    def forward(self, x):
        shortcut = x
        x = self.dropout(self.attention(self.norm1(x))) + shortcut
        shortcut = x
        return self.dropout(self.layers(self.norm2(x))) + shortcut


class Gpt(nn.Module):
    def __init__(self, asked):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(asked.vocabulary, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.dropout, self.blocks = nn.Dropout(DROPOUT), nn.Sequential(*(Block(asked) for _ in range(DEPTH)))
        self.norm = OwnNorm(WIDTH) if asked.blocks == "own" else nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, asked.vocabulary, bias=False)

    def forward(self, indices):
        x = self.dropout(self.tokens(indices) + self.positions(torch.arange(indices.shape[1], device=indices.device)))
        return self.head(self.norm(self.blocks(x)))


def loss_of(model, batch):
    tokens, targets = torch.randint(0, 50257, (2, batch, LENGTH)).cuda()
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def evaluate(model, batch):
    model.eval()
    with torch.no_grad():
        for _ in range(2):
            loss_of(model, batch).item()
    model.train()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mask", choices=("kept", "made"), default="made")
    parser.add_argument("--blocks", choices=("own", "torch"), default="torch")
    parser.add_argument("--attention", choices=("own", "torch"), default="torch")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--batch", type=int, default=8)
    return parser.parse_args()


def main():
    asked = parsed()
    with torch.device("meta"):
        model = Gpt(asked)
    model.to_empty(device="cpu")
    if asked.compile:
        model = torch.compile(model)
    model.cuda().to(getattr(torch, asked.dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=asked.fused)
    model.train()
    for index in range(4):
        optimizer.zero_grad()
        loss = loss_of(model, asked.batch)
        loss.backward()
        optimizer.step()
        if index % 3 == 0:
            evaluate(model, asked.batch)
    counters.say()


if __name__ == "__main__":
    main()

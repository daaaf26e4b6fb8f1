# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Embedding of texts of all lengths. nvidia-smi goes up and up."""
import random
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=30000, d=768, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList([nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(depth)])

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        return x.mean(1)


random.seed(7)
model = Encoder().cuda().eval()
vectors = []
with torch.inference_mode():
    for i in range(120):
        length = int(random.paretovariate(1.2) * 24) % 1500 + 8
        vectors.append(model(torch.zeros(16, length, dtype=torch.long, device="cuda")).cpu())
        if i % 30 == 0:
            print(i, "allocated", torch.cuda.memory_allocated() >> 20, "reserved", torch.cuda.memory_reserved() >> 20)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A small model that serves 30 requests and keeps something of them: a cache of keys and values made once (`static`) or grown token by token (`grow`), the
last ten results (`results`), every result (`all`), nothing (`plain`). Marks a moment in the middle."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

KIND = sys.argv[1]


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.keys = self.values = None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        if KIND == "static":
            if self.keys is None:
                self.keys = torch.zeros(8, 512, x.shape[-1], device="cuda")
                self.values = torch.zeros_like(self.keys)
            self.keys[:, : x.shape[1]] = k
            self.values[:, : x.shape[1]] = v
        elif KIND == "grow":
            self.keys = k if self.keys is None else torch.cat([self.keys, k], 1)
            self.values = v if self.values is None else torch.cat([self.values, v], 1)
            k, v = self.keys, self.values
        return self.out(F.scaled_dot_product_attention(q, k, v))


class Model(nn.Module):
    def __init__(self, width=128, layers=3):
        super().__init__()
        self.tokens = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(Attention(width) for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def generate(model, request):
    for layer in model.layers:
        layer.keys = layer.values = None
    tokens = torch.randint(0, 1000, (8, 16), device="cuda")
    for token in range(12):
        if (request, token) == (20, 8):
            torch.cuda.nvtx.mark("middle")
        tokens = model(tokens)[:, -1:].argmax(-1)


def main():
    model, last, every = Model().cuda().eval(), {}, []
    with torch.inference_mode():
        for request in range(30):
            if KIND == "grow":
                generate(model, request)
                continue
            chances = model(torch.randint(0, 1000, (8, 64), device="cuda")).softmax(-1)
            if KIND == "results":
                last[request % 10] = chances.mean(1)
            if KIND == "all":
                every.append(chances)
            if request == 20:
                torch.cuda.nvtx.mark("middle")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A model that torch.compile turned into one graph of torch.fx (argument 1: the backend), forward and backward: compiled_regions_test.py looks at the lines. No Triton
is needed."""

import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(512, 512))

    def forward(self, x):
        y = x @ self.weight  # TRUTH of the product
        return torch.relu(y)  # TRUTH of relu


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * 2  # TRUTH of the output


net = Net().cuda()
compiled = torch.compile(net, backend=sys.argv[1])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
for _ in range(4):
    out = compiled(torch.ones(3000, 512, device="cuda"))
    kept.append(out)
    out.sum().backward()
    optimizer.step()
    optimizer.zero_grad()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the programs of ranged.py have in common."""

import os

import torch
from torch import nn

TRUTH = "TRUTH" in os.environ
GIB, WIDTH = 1 << 30, 4096


def rows(count):
    return torch.randn(int(count), WIDTH, device="cuda")  # 16 KiB each


def block(gib):
    return torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda")


def model(layers=4):
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH, device="cuda"), nn.GELU()) for _ in range(layers)])


def train(batch, steps=6, net=None, after=None):
    net = net or model()
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(steps):
        loss = net(batch(step)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if after:
            after(step, loss)


def decided(value, truth):
    """What a GPU decides: `truth` where it is stated."""
    return truth if TRUTH else value

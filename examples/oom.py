# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Doubles the batch until the GPU is full, and dies of it: the out-of-memory error of an ordinary training, uncaught.

    python examples/oom.py
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F


def build_model(width, layers, device):
    stack = []
    for _ in range(layers):
        stack += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*stack).to(device)


def train_step(model, optimizer, batch, width, device):
    inputs = torch.randn(batch, width, device=device)
    loss = F.mse_loss(model(inputs), inputs)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main():
    if not torch.cuda.is_available():
        sys.exit("oom.py needs a CUDA device (without one: gpumemshim simulate -- python examples/oom.py)")
    device, width, batch = torch.device("cuda"), 4096, 1024
    model = build_model(width, 8, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    while True:
        print(f"batch {batch}", flush=True)
        train_step(model, optimizer, batch, width, device)
        batch *= 2


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Leaks a little each step: keeps the loss tensor, and with it the whole graph, where a number was meant.

    python examples/leak.py [--steps 30]
"""

import argparse
import sys

import torch
from torch import nn
from torch.nn import functional as F

history = []


def remember_loss(loss):
    history.append(loss)  # the bug: should be loss.item()


def train_step(model, optimizer, inputs):
    hidden = model(inputs)
    loss = F.mse_loss(hidden, inputs)
    optimizer.zero_grad(set_to_none=True)
    loss.backward(retain_graph=True)
    optimizer.step()
    remember_loss(loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("leak.py needs a CUDA device (without one: gpumemshim simulate -- python examples/leak.py)")
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1, arguments.steps + 1):
        train_step(model, optimizer, torch.randn(256, 1024, device=device))
        print(f"step {step:3d}  {torch.cuda.memory_allocated() / 2**20:8.1f} MiB allocated", flush=True)


if __name__ == "__main__":
    main()

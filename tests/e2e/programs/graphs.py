# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Captures whole training steps in CUDA graphs, with private pools, and replays them."""

import torch
from torch import nn
from torch.nn import functional as F

from numbers_of_torch import keep_alive, print_numbers


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad(set_to_none=True)
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


def warm_up(step):
    """Capturing wants a few steps on another stream first."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)


def capture(batch, width):
    model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = (torch.randn(batch, width, device="cuda") for _ in range(2))
    warm_up(lambda: train_step(model, optimizer, inputs, targets))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train_step(model, optimizer, inputs, targets)
    return graph, model, optimizer, inputs, targets, loss


def main():
    captured = [capture(batch, 1024) for batch in (64, 256)]
    for _ in range(3):
        for graph, _, _, inputs, _, _ in captured:
            inputs.copy_(torch.randn_like(inputs))
            graph.replay()
    keep_alive(*(item for parts in captured for item in parts))
    print_numbers()


if __name__ == "__main__":
    main()

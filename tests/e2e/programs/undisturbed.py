# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains on the CPU, where results mean something also on simulated CUDA, while recording is on; and lets torch.compile look at models and at an
optimizer's step. Prints what came out, bit by bit."""

import hashlib
import json

import torch
from torch import nn


def digest(model):
    state = hashlib.sha256()
    for tensor in [*model.parameters(), *model.buffers()]:
        state.update(tensor.detach().cpu().numpy().tobytes())
    return state.hexdigest()


def make(device):
    layers = [nn.Linear(32, 64), nn.BatchNorm1d(64), nn.Dropout(0.2), nn.ReLU(), nn.Linear(64, 8)]
    return nn.Sequential(*layers).to(device)


class Unnamable(nn.Sequential):
    """Fails when it is asked for what it has, as a class that overrides nn.Module's methods may."""

    def named_modules(self, *_, **__):
        raise ValueError("modules of this one have no names")


def train(model, step, optimizer, steps, device):
    for i in range(steps):
        x = torch.randn(24 if i == 3 else 16, 32, device=device)
        loss = model(x).logsumexp(1).mean()
        loss.backward()
        step()
        optimizer.zero_grad()


def eager():
    torch.manual_seed(1)
    model = make("cpu")
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer.step, optimizer, 10, "cpu")
    return digest(model)


def compiled(device):
    """Graphs that torch.compile makes of the model, and of a step of its optimizer."""
    torch._dynamo.reset()
    torch.manual_seed(2)
    graphs = []

    def backend(graph, inputs):
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    model = make(device)
    optimizer = torch.optim.AdamW(model.parameters())
    train(torch.compile(model, backend=backend), optimizer.step, optimizer, 5, device)
    train(torch.compile(model, backend=backend), torch.compile(lambda: optimizer.step(), backend=backend), optimizer, 4, device)
    counters = torch._dynamo.utils.counters
    return [graphs, dict(counters["graph_break"]), counters["stats"]["unique_graphs"], counters["stats"]["calls_captured"], digest(model) if device == "cpu" else ""]


def main():
    kept = torch.ones(100_000, device="cuda")  # recording is on from here
    on_gpu = make("cuda")
    train(on_gpu, lambda: None, torch.optim.SGD(on_gpu.parameters()), 2, "cuda")
    train(Unnamable(on_gpu), lambda: None, torch.optim.SGD(on_gpu.parameters()), 2, "cuda")
    print(json.dumps([eager(), compiled("cpu"), compiled("cuda"), kept.numel()], indent=1))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains several small models, each with something that makes it hard to say what a byte is for, and prints what is true of them as a JSON line."""

import gc
import json
import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, checkpointed=False):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.checkpointed = checkpointed

    def inner(self, x):
        return self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    def forward(self, x):
        return x + (checkpoint(self.inner, x, use_reentrant=False) if self.checkpointed else self.inner(x))


class Tied(nn.Module):
    """An embedding that is the head too, a block that is called twice, a buffer, and frozen parameters."""

    def __init__(self, width=64, words=128, checkpointed=False):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.block = Block(width, checkpointed)
        self.again = self.block
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.full((width,), 0.5))

    def forward(self, tokens):
        x = self.again(self.block(self.embedding(tokens)))
        return self.head(self.frozen(x) * self.scale)


def train(model, optimizer, steps=3, accumulate=1):
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            tokens = torch.randint(0, 128, (16, 32), device="cuda")
            model(tokens).logsumexp(-1).mean().backward()
        optimizer.step()


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("in backward")


def fail_in_backward(model):
    """An exception goes through the engine's nodes. What is allocated after it is of no backward pass."""
    try:
        Fails.apply(model(torch.randint(0, 128, (16, 32), device="cuda"))).sum().backward()
    except RuntimeError as error:
        assert "in backward" in str(error)
    model.zero_grad()
    return torch.ones(12345, device="cuda")


def describe(name, model, optimizer):
    def place(tensor):
        return [tensor.data_ptr(), tensor.numel() * tensor.element_size()]

    parameters = dict(model.named_parameters())
    return {
        "model": name,
        "modules": sorted([path, type(module).__name__] for path, module in model.named_modules()),
        "parameters": {path: [*place(p), p.requires_grad, list(p.shape)] for path, p in parameters.items()},
        "buffers": {path: place(b) for path, b in model.named_buffers()},
        "gradients": {path: place(p.grad) for path, p in parameters.items() if p.grad is not None},
        "states": {
            f"{path}.{key}": place(value)
            for path, p in parameters.items()
            for key, value in optimizer.state.get(p, {}).items()
            if value.is_cuda
        },
    }


def main():
    torch.manual_seed(0)
    kept = []
    first = Tied().cuda()
    kept.append(("adamw", first, torch.optim.AdamW(first.parameters(), foreach=True)))
    train(first, kept[-1][2])
    leftover = fail_in_backward(first)
    train(first, kept[-1][2], steps=2)

    for _ in range(3):  # deleted and rebuilt: others lie at the same addresses
        gone = Tied(width=32).cuda()
        train(gone, torch.optim.SGD(gone.parameters(), lr=0.1), steps=1)
        del gone
        gc.collect()

    second = Tied(checkpointed=True).cuda()
    kept.append(("momentum", second, torch.optim.SGD([p for p in second.parameters() if p.requires_grad], lr=0.1, momentum=0.9)))
    train(second, kept[-1][2], accumulate=2)

    third = Tied(width=48).cuda()
    kept.append(("thread", third, torch.optim.Adam(third.parameters())))
    thread = threading.Thread(target=train, args=kept[-1][1:])
    thread.start()
    thread.join()

    print(json.dumps({"models": [describe(*entry) for entry in kept], "leftover": leftover.data_ptr()}))


if __name__ == "__main__":
    main()

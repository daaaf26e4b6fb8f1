# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Training that starts again from a checkpoint."""
import os
import tempfile
import torch
from torch import nn


def build():
    return nn.Sequential(*[nn.Linear(2048, 2048, device="cuda") for _ in range(10)])


def save(path):
    model = build()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 2048, device="cuda")).mean().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)


def resume(path):
    model = build()
    optimizer = torch.optim.AdamW(model.parameters())
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return model, optimizer, state


def main():
    path = os.path.join(tempfile.mkdtemp(), "last.pt")
    save(path)
    torch.cuda.empty_cache()
    model, optimizer, state = resume(path)
    print("resumed after epoch", state["epoch"], torch.cuda.memory_allocated() >> 20, "MiB")
    for step in range(12):
        loss = model(torch.randn(256, 2048, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("peak", torch.cuda.max_memory_allocated() >> 20, "MiB")
    os.remove(path)


main()

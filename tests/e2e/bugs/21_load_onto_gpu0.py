# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The worker of GPU 1 resumes from a checkpoint that rank 0 wrote."""
import os
import sys
import tempfile
import subprocess
import torch
from torch import nn


def build():
    return nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(6)])


def rank0(path):
    model = build().cuda(0)
    torch.save({"model": model.state_dict(), "step": 100}, path)


def rank1(path):
    device = torch.device("cuda:1")
    model = build().to(device)
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        loss = model(torch.randn(64, 2048, device=device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("rank 1: allocated on GPU 0", torch.cuda.memory_allocated(0) >> 20, "on GPU 1", torch.cuda.memory_allocated(1) >> 20)


(rank0 if sys.argv[2:] == ["prepare"] else rank1)(sys.argv[1])

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A short training on the first of two GPUs, with marks of its own, something pinned and something on the other GPU; for the commands of docs/features.md."""

import torch

import gpumemshim

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
pinned = torch.empty(1 << 20, pin_memory=True)
other = torch.empty(1 << 20, device="cuda:1")
gpumemshim.mark("NAME")
gpumemshim.mark("start")
for _ in range(101):
    model(torch.ones(8, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

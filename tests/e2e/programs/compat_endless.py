# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains a small model until its standard input ends; for what asks from outside (gpumemshim.compat.probing, .memory)."""

import select
import sys

import torch

model = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.AdamW(model.parameters())
steps = 0
while not select.select([sys.stdin], [], [], 0.02)[0]:
    model(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
    if steps == 3:
        print("trains", flush=True)

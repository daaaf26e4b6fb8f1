# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""As compat_endless.py, with modules inside one another and a `trainer` that knows its step, as documents of Probing assume."""

import select
import sys

import torch


class Trainer:
    current_step = 0


trainer = Trainer()
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
steps = 0
while not select.select([sys.stdin], [], [], 0.02)[0]:
    model(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
    if steps == 12:
        print("trains", flush=True)

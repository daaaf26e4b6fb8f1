# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains a small model until its standard input ends; for what asks from outside (gpumemshim.compat.probing, .memory). With --modules it has modules inside
one another and trains longer before it says so; its `trainer` is what documents of Probing assume."""

import select
import sys

import torch



class Trainer:
    current_step = 0


has_modules = "--modules" in sys.argv
trainer = Trainer()
model = torch.nn.Linear(512, 512)
if has_modules:
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters())
steps = 0
while not select.select([sys.stdin], [], [], 0.02)[0]:
    model(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
    if steps == (12 if has_modules else 3):
        print("trains", flush=True)

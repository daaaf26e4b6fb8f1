# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A small net with convolutions that trains: what plan_against_run_test.py plans, and then runs with one thing changed.

    python against.py [--batch-size 16]
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
rows = parser.parse_args().batch_size
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    model(torch.randn(rows, 3, 128, 128, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

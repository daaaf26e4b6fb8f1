# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""RAM grows by the hour. A running average is never detached, and histograms pile up on the host."""
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.running = torch.zeros(d, device="cuda")

    def forward(self, x):
        mean = x.mean(0)
        self.running = 0.9 * self.running + 0.1 * mean
        return x - mean


model = nn.Sequential(nn.Linear(256, 512), Norm(512), nn.ReLU(), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
history = []
for step in range(80):
    loss = model(torch.randn(64, 256, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append({n: p.grad.cpu() for n, p in model.named_parameters()})
    if step % 20 == 0:
        print(step, torch.cuda.memory_allocated() >> 10, "KiB on the GPU")

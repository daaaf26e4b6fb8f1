# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Gradient accumulation in a training engine that keeps the outputs of its micro-batches in two slots."""
import torch
from torch import nn


class Engine:
    def __init__(self, module, accumulate):
        self.module, self.accumulate = module.cuda(), accumulate
        self.optimizer = torch.optim.AdamW(self.module.parameters())
        self.slots = [None, None]

    def forward(self, i, batch):
        out = self.module(batch)
        self.slots[i % 2] = out.square()
        return self.slots[i % 2]

    def train_batch(self, batches):
        for i, batch in enumerate(batches):
            loss = self.forward(i, batch).mean() / self.accumulate
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


engine = Engine(nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 16384)), 4)
for step in range(12):
    engine.train_batch([torch.randn(2048, 512, device="cuda") for _ in range(4)])
print("peak", torch.cuda.max_memory_allocated() >> 20, "now", torch.cuda.memory_allocated() >> 20)

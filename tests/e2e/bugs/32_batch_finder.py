# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Finds the largest batch that fits: halves it after each out of memory, and reports all failures at the end."""
import torch
from torch import nn

model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(2048, 2048, device="cuda"), nn.GELU())])
failures = []


def train_step(batch_size):
    x = torch.randn(batch_size, 2048, device="cuda")
    hidden = model(x)
    logits = hidden @ torch.empty(2048, 16384, device="cuda")
    loss = logits.square().mean()
    loss.backward()
    return float(loss.detach())


def find_batch_size(start):
    batch_size = start
    while batch_size:
        try:
            train_step(batch_size)
            return batch_size
        except torch.OutOfMemoryError as error:
            failures.append((batch_size, error))
            model.zero_grad()
            torch.cuda.empty_cache()
            batch_size //= 2
    return 0


found = find_batch_size(16384)
print("largest batch", found, "after", [b for b, _ in failures], torch.cuda.memory_allocated() >> 20, "MiB still allocated")

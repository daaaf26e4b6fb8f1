# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Objects that refer to themselves; Python's collector runs when it likes."""
import torch
from torch import nn


class Sample:
    def __init__(self, tensor):
        self.tensor = tensor
        self.done = self.finish
        self.tags = [{"i": i, "of": self} for i in range(40)]

    def finish(self):
        self.tensor = None


model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
low = []
for step in range(200):
    sample = Sample(torch.randn(4096, 256, device="cuda"))
    loss = model(sample.tensor).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    low.append(torch.cuda.memory_allocated() >> 20)
print("from", min(low), "to", max(low), "MiB")

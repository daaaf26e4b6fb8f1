# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A forward, a backward and a loader that pins, all of whose memory lives to the end: mixed_test.py looks at the stacks."""

import torch
from torch.utils.data import DataLoader, TensorDataset


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(256, 256)

    def forward(self, x):
        return torch.relu(self.line(x))


model = torch.nn.Sequential(Block(), Block()).cuda()
data = DataLoader(TensorDataset(torch.randn(16, 256)), batch_size=8, num_workers=1, pin_memory=True)
kept = []
for (batch,) in data:
    out = model(batch.cuda())
    out.sum().backward()
    kept += [batch, out]

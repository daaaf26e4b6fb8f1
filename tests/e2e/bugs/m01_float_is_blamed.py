# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import torch
registry = []
def fold():
    registry.append(torch.zeros(1 << 20, device="cuda"))       # TRUTH: kept here
    return float(registry[-1].numel())                          # a Python number
scores = []
for _ in range(20):
    x = torch.zeros(256, device="cuda")
    scores.append(fold())                                       # holds numbers only

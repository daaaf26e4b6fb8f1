# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
from collections import deque
import random, torch
w = torch.zeros(256, 8, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
memory = deque(maxlen=200)                                      # full after 200 of 1,000 steps
for step in range(1000):
    memory.append(torch.randn(1024, 256, device="cuda"))
    (random.choice(memory) @ w).mean().backward(); optimizer.step(); optimizer.zero_grad()

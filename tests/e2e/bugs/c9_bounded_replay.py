# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A replay memory with room for 60 trajectories, in a run of 200 steps."""
from collections import deque
import random
import torch
from torch import nn

policy = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 8)).cuda()
optimizer = torch.optim.Adam(policy.parameters())
memory = deque(maxlen=60)
random.seed(0)
for step in range(200):
    memory.append(torch.randn(2048, 128, device="cuda"))
    loss = policy(random.choice(memory)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, torch.cuda.memory_allocated() >> 20, "MiB")

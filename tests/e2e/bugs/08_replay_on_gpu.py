# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Off-policy training: trajectories are kept for later, 5,000 of them at most."""
from collections import deque
import random
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
        self.head = nn.Linear(512, 64)

    def forward(self, obs):
        return torch.log_softmax(self.head(self.body(obs)), -1)


class ReplayBuffer:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def push(self, trajectory):
        self.items.append(trajectory)

    def sample(self, n):
        return random.sample(list(self.items), min(n, len(self.items)))


def rollout(policy, steps=256):
    obs = torch.randn(steps, 128, device="cuda")
    logp = policy(obs)
    actions = torch.zeros(steps, 1, dtype=torch.long, device="cuda")
    return {"obs": obs, "actions": actions, "log_prob": logp.gather(1, actions), "reward": torch.zeros(steps, device="cuda")}


random.seed(0)
policy = Policy().cuda()
optimizer = torch.optim.Adam(policy.parameters())
buffer = ReplayBuffer(5000)
for step in range(100):
    trajectory = rollout(policy)
    buffer.push(trajectory)
    loss = 0
    for t in buffer.sample(4):
        loss = loss - (policy(t["obs"]).gather(1, t["actions"])[:, 0] * t["reward"]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, torch.cuda.memory_allocated() >> 20, "MiB")

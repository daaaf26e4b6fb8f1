# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""PPO inside a simulator that switched Python's garbage collector off for even frame times."""
import gc
import torch
from torch import nn


def start_simulator():
    gc.collect()
    gc.disable()


class MicroBatch:
    def __init__(self, storage, indices):
        self.obs = storage[indices].clone()
        self.done = self.finish

    def finish(self):
        self.obs = None


class Learner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 32)).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, storage):
        order = torch.arange(4096, device="cuda")
        for part in order.chunk(4):
            batch = MicroBatch(storage, part)
            loss = self.net(batch.obs).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


start_simulator()
learner = Learner()
for iteration in range(20):
    learner.update(torch.randn(4096, 512, device="cuda"))
    if iteration % 5 == 0:
        print(iteration, torch.cuda.memory_allocated() >> 20, "MiB")

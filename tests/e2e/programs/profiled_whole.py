# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A training that torch.profiler watches from its first tensor on. Prints PyTorch's own numbers as a JSON line.

    python tests/e2e/programs/profiled_whole.py OUT.json [stack]
"""

import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

STEPS = 12


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
        self.head = torch.nn.Linear(256, 10)

    def forward(self, inputs):
        hidden = self.body(inputs)
        return self.head(hidden)


def step(net, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(inputs), targets)
    loss.backward()
    optimizer.step()


def train(profiler):
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(STEPS):
        inputs = torch.randn(64, 256, device="cuda")
        targets = torch.zeros(64, dtype=torch.long, device="cuda")
        step(net, optimizer, inputs, targets)
        profiler.step()
    return net


def main():
    out, with_stack = sys.argv[1], sys.argv[2:] == ["stack"]
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, profile_memory=True, with_stack=with_stack, acc_events=True) as profiler:
        net = train(profiler)
    profiler.export_chrome_trace(out)
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "end": torch.cuda.memory_allocated()}))
    del net


main()

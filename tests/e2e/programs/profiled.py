# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A small training part of which torch.profiler watches, which uses CUPTI itself. Prints what the profiler got, as a JSON line.

    python tests/e2e/programs/profiled.py first | later

`later`: there is training of a second before the profiler comes.
"""

import json
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile


def train(steps):
    layer = torch.nn.Linear(256, 256).cuda()
    for _ in range(steps):
        layer(torch.randn(64, 256, device="cuda")).sum().backward()
    torch.cuda.synchronize()


def main():
    if sys.argv[1:] == ["later"]:
        train(3)
        time.sleep(1)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as profiler:
        train(3)
    names = [event.name for event in profiler.events()]
    train(3)
    print(json.dumps({"events": len(names), "addmm": sum(name == "aten::addmm" for name in names), "allocated": torch.cuda.memory_allocated()}))


main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""PyTorch's recipe for ZeroRedundancyOptimizer: twenty linear layers under DDP, one step of Adam. Peaks are read after each part; `--until` ends it there.

    torchrun --nproc-per-node 2 zero_tutorial.py --until step --zero
    gpumemshim plan --nproc-per-node 2 -- python zero_tutorial.py --until backward
"""

import argparse

import counters
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

PARTS = ("model", "ddp", "backward", "step")


def peaks(zero):
    """(part, max_memory_allocated after it), as the recipe prints them."""
    rank = dist.get_rank()
    model = torch.nn.Sequential(*[torch.nn.Linear(2000, 2000).to(rank) for _ in range(20)])
    yield "model"
    wrapped = DistributedDataParallel(model, device_ids=[rank])
    yield "ddp"
    if zero:
        optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    else:
        optimizer = torch.optim.Adam(wrapped.parameters(), lr=0.01)
    outputs = wrapped(torch.randn(20, 2000).to(rank))
    labels = torch.randn(20, 2000).to(rank)
    torch.nn.MSELoss()(outputs, labels).backward()
    yield "backward"
    optimizer.step()
    yield "step"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--until", choices=PARTS, required=True)
    parser.add_argument("--zero", action="store_true")
    asked = parser.parse_args()
    dist.init_process_group("gloo")
    for part in peaks(asked.zero):
        if part == asked.until:
            break
    counters.say()


if __name__ == "__main__":
    main()

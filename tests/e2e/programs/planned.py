# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What `gpumem plan` is tried on: one case each, plain PyTorch. After each step it writes PyTorch's own counters to $COUNTERS, a JSON line a step.

    python planned.py CASE [--batch-size N]
"""

import argparse
import json
import os
import time

import torch
from torch import nn

WIDTH = 1024


def count(step):
    if "COUNTERS" in os.environ:
        with open(os.environ["COUNTERS"], "a", encoding="utf-8") as file:
            counters = {"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
            file.write(json.dumps({**counters, "name": torch.cuda.get_device_name(), "memory": torch.cuda.get_device_properties(0).total_memory}) + "\n")


def layers(number=4):
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(number)]).cuda()


def train(arguments, make_input, steps=50, accumulate=1):
    model = layers()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(1, steps + 1):
        for _ in range(accumulate):
            model(make_input(step)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        count(step)


def plain(arguments):
    train(arguments, lambda step: torch.randn(arguments.batch_size, WIDTH, device="cuda"))


def accumulated(arguments):
    train(arguments, lambda step: torch.randn(arguments.batch_size, WIDTH, device="cuda"), accumulate=4)


def late_growth(arguments):
    """A larger batch comes in the eighth step."""
    train(arguments, lambda step: torch.randn(arguments.batch_size * (4 if step == 8 else 1), WIDTH, device="cuda"), steps=10)


def masked(arguments):
    def rows(step):
        every = torch.randn(arguments.batch_size, WIDTH, device="cuda")
        return every[every.sum(dim=1) > 0]

    train(arguments, rows)


def branch(arguments):
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 11):
        batch = torch.randn(arguments.batch_size, WIDTH, device="cuda")
        if batch.max().item() > 3:
            batch = torch.cat([batch, batch, batch])
        model(batch).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        count(step)


def two_optimizers(arguments):
    first, second = layers(2), layers(2)
    optimizers = [torch.optim.Adam(model.parameters()) for model in (first, second)]
    for _ in range(50):
        for model, optimizer in zip((first, second), optimizers):
            model(torch.randn(arguments.batch_size, WIDTH, device="cuda")).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def cached(arguments):
    """Leaves its cache in pieces that nothing larger fits into: PyTorch gives it back where the device is full."""
    plain_rows = [torch.empty(24 << 20, dtype=torch.uint8, device="cuda") for _ in range(20)]
    del plain_rows
    torch.empty(900 << 20, dtype=torch.uint8, device="cuda")


def waits(arguments):
    value = torch.ones(1, device="cuda")
    while not bool(value < 0):
        value = value * 0.5


def sleeps(arguments):
    torch.ones(1, device="cuda")
    while True:
        time.sleep(0.1)


def fails(arguments):
    torch.ones(1, device="cuda")
    raise ValueError("no data at /data/imagenet")


def no_cuda(arguments):
    print(torch.ones(3).sum())


def ranks(arguments):
    torch.distributed.init_process_group("nccl")
    rank = torch.distributed.get_rank()
    torch.cuda.set_device(rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(WIDTH, WIDTH).cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(50):
        model(torch.randn(arguments.batch_size * (rank + 1), WIDTH, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def streams(arguments):
    side = torch.cuda.Stream()
    model = layers(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(50):
        with torch.cuda.stream(side):
            batch = torch.randn(arguments.batch_size, WIDTH, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        model(batch).sum().backward()
        del batch
        optimizer.step()
        optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("--batch-size", type=int, default=4096)
    arguments = parser.parse_args()
    globals()[arguments.case](arguments)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What `gpumemshim plan` is tried on: one case each, plain PyTorch. After each step it writes PyTorch's own counters to $COUNTERS, a JSON line a step.

    python planned.py CASE [--batch-size N]
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
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


def long(arguments):
    train(arguments, lambda step: torch.randn(arguments.batch_size, WIDTH, device="cuda"), steps=10**9)


def two_processes(arguments):
    if arguments.batch_size == 0:
        kept = torch.empty(50 << 30, dtype=torch.uint8, device="cuda")
        print("ready", flush=True)
        sys.stdin.read()
        return kept
    children = [subprocess.Popen([sys.executable, __file__, "two_processes", "--batch-size", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for child in children:
        child.stdout.readline()
    for child in children:
        child.communicate()


def settles(arguments):
    size = 256
    while True:
        try:
            kept = torch.empty(size << 30, dtype=torch.uint8, device="cuda")
            break
        except torch.OutOfMemoryError:
            size //= 2
    torch.zeros(1000, device="cuda")
    del kept


def managed(arguments):
    torch.zeros(1, device="cuda")
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    pointer = ctypes.c_void_p()
    assert runtime.cudaMallocManaged(ctypes.byref(pointer), ctypes.c_size_t(3 << 30), 1) == 0


def computed(arguments):
    """Everything that decides here comes from the host."""
    lengths = torch.tensor([3, 17, 5], device="cuda")
    mask = torch.arange(20, device="cuda")[None] < lengths[:, None]
    labels = torch.full((3, 20), -100, device="cuda").masked_fill(mask, 7)
    positions = torch.zeros(4, dtype=torch.long, device="cuda")
    positions += 3
    positions[1] = 7
    packed = torch.randn(3, 20, 8, device="cuda")[mask]
    inverse = 1.0 / (10000 ** (torch.arange(0, 8, 2, device="cuda").float() / 8))
    unique, counts = torch.unique(torch.tensor([5, 1, 2, 2, 5, 5], device="cuda"), return_counts=True)
    order = torch.argsort(lengths, descending=True)
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    found = {
        "longest": lengths.max().item(), "total": int(lengths.sum()), "mask": mask.nonzero().tolist()[-1], "labels": int((labels != -100).sum()),
        "positions": positions.tolist(), "packed": list(packed.shape), "inverse": [round(value, 6) for value in inverse.tolist()], "unique": unique.tolist(),
        "counts": counts.tolist(), "order": order.tolist(), "starts": starts.tolist(), "repeated": list(torch.repeat_interleave(lengths).shape),
        "where": torch.where(lengths == 17)[0].tolist(), "any": bool((lengths > 100).any()), "all": bool((lengths > 2).all()), "none": bool((lengths > 3).all()),
        "causal": int(torch.tril(torch.ones(5, 5, dtype=torch.bool, device="cuda")).sum()), "top": torch.topk(lengths, 2).values.tolist(), "halves": (lengths // 2).tolist(),
        "bins": torch.bincount(lengths).shape[0], "isin": torch.isin(lengths, torch.tensor([5], device="cuda")).tolist(), "hot": int(torch.nn.functional.one_hot(lengths).argmax(1).sum()),
        "rest": torch.unique(lengths % 3).tolist(), "power": int((2 ** (lengths > 4).long()).sum()),
    }
    with open("computed.json", "w", encoding="utf-8") as file:
        json.dump(found, file)


def masked(arguments):
    def rows(step):
        every = torch.randn(arguments.batch_size, WIDTH, device="cuda")
        return every[every.sum(dim=1) > 0]

    train(arguments, rows)


def experts(arguments):
    """Each gets what chose it."""
    layers_of_experts = nn.ModuleList([nn.Linear(WIDTH, 4 * WIDTH) for _ in range(8)]).cuda()
    router = nn.Linear(WIDTH, 8).cuda()
    hidden = torch.randn(arguments.batch_size, WIDTH, device="cuda")
    chosen = router(hidden).topk(2).indices
    kept = [expert(hidden[torch.where(chosen == number)[0]]) for number, expert in enumerate(layers_of_experts)]
    return kept


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
    is_negative = torch.randn(1, device="cuda") < 0
    while not is_negative:
        pass


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

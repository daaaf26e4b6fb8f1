# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs out of memory in some of the ways in which programs do, catches it, and prints what PyTorch said: `oom_cases.py CASE...`. Meant for a device
of 2 GiB."""

import gc
import json
import sys

import torch

MIB = 1 << 20


def take(mib, device="cuda:0"):
    return torch.empty(mib * MIB, dtype=torch.uint8, device=device)


class Messages:
    """Calls what is to fail, and keeps what PyTorch said."""

    def __init__(self):
        self.ooms = []

    def expect(self, function, *arguments):
        try:
            function(*arguments)
        except torch.cuda.OutOfMemoryError as error:
            self.ooms.append(str(error))
            return
        raise SystemExit(f"{function} was to run out of memory, and did not")


def plain(messages):
    kept = [take(40) for _ in range(10)]
    cached = take(100)
    del cached
    messages.expect(take, 4000)
    return kept


def fragmented(messages):
    kept = [take(8) for _ in range(160)]  # two in a segment of 20 MiB
    del kept[::2]
    messages.expect(take, 600)
    return kept


def fraction(messages):
    torch.cuda.set_per_process_memory_fraction(0.25)
    kept = take(300)
    messages.expect(take, 300)
    return kept


def mempool(messages):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = [take(100), take(300)]
    kept.pop()
    messages.expect(take, 1900)
    return pool, kept


def capture(messages):
    def fail():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            take(4000)

    kept = take(100)
    messages.expect(fail)
    return kept


class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        take(4000)
        return gradient


def backward(messages):
    x = torch.ones(1000, device="cuda", requires_grad=True)
    messages.expect(Greedy.apply(x).sum().backward)
    return x


def autograd(messages):
    """On autograd's own thread, in code that is not Python's."""
    weight = torch.empty(150 * MIB, device="cuda", requires_grad=True)
    kept = take(1000)
    messages.expect(weight.sum().backward)
    return weight, kept


def search(messages):
    kept = take(100)
    for mib in range(4000, 2800, -100):
        messages.expect(take, mib)
    return kept


def second_device(messages):
    kept = take(100), take(50, "cuda:1")
    messages.expect(take, 3000, "cuda:1")
    return kept


def retries(messages):
    for mib in range(1000, 1200, 10):  # each needs the one before it to be given back
        take(mib)


def run_case(name):
    """What PyTorch said."""
    messages = Messages()
    kept = globals()[name](messages)
    del kept
    gc.collect()
    torch.cuda.empty_cache()
    return messages.ooms


def main():
    messages = {name: run_case(name) for name in sys.argv[1:]}
    stats = [torch.cuda.memory_stats(device) for device in range(torch.cuda.device_count())] if torch.cuda.get_allocator_backend() == "native" else []
    print(json.dumps({"messages": messages, "retries": [each["num_alloc_retries"] for each in stats], "ooms": [each["num_ooms"] for each in stats]}), flush=True)


if __name__ == "__main__":
    main()

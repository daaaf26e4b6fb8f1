# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""torch_depth.py MODE PAIRS [new]: allocates and frees a cached CUDA tensor PAIRS times, twenty Python frames deep. One JSON line of ns a call.

MODE is `plain`, or PyTorch's own history beside which the recorder is measured: `history-none` (no stacks), `history-python` (Python stacks) or
`history-all` (C++ too). With `new` every tensor comes from a Python stack that was not there before; without, all come from the same line.
"""

import json
import sys
import time

import torch

DEPTH = 20


def run_pairs(pairs):
    for _ in range(2000):
        torch.empty(1024, device="cuda")
    cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
    for _ in range(pairs):
        torch.empty(1024, device="cuda")
    return time.thread_time_ns() - cpu, time.perf_counter_ns() - wall


def descend(depth, pairs):
    return descend(depth - 1, pairs) if depth > 1 else run_pairs(pairs)


def left(path, depth):
    if depth:
        (right if path & 1 else left)(path >> 1, depth - 1)
    else:
        torch.empty(1024, device="cuda")


def right(path, depth):
    if depth:
        (right if path & 1 else left)(path >> 1, depth - 1)
    else:
        torch.empty(1024, device="cuda")


def run_new(pairs):
    """Each call goes another way through the two functions: 2 ** (DEPTH - 1) stacks."""
    warm_up = 2000
    for path in range(warm_up):
        left(path, DEPTH - 1)
    cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
    for path in range(warm_up, warm_up + pairs):
        left(path, DEPTH - 1)
    return time.thread_time_ns() - cpu, time.perf_counter_ns() - wall


def main():
    mode, pairs = sys.argv[1], int(sys.argv[2])
    new = sys.argv[3:] == ["new"]
    torch.empty(1, device="cuda")
    if mode.startswith("history"):
        stacks = mode.split("-")[1]
        torch.cuda.memory._record_memory_history(context=None if stacks == "none" else "all", stacks="python" if stacks == "none" else stacks, max_entries=100_000)
    cpu, wall = run_new(pairs) if new else descend(DEPTH, pairs)
    print(json.dumps({"mode": mode, "threads": 1, "calls": 2 * pairs, "cpu_ns_a_call": cpu / 2 / pairs, "wall_ns_a_call": wall / 2 / pairs}))


if __name__ == "__main__":
    main()

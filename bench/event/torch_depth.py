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
WARM_UP = 2000
SLICE = 500  # pairs


def timed(run, slices):
    """CPU and wall time of run(start, end) in slices: those of the fastest tenth, scaled to all. A neighbour on the machine only adds."""
    times = []
    for start, end in slices:
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        run(start, end)
        times.append((time.thread_time_ns() - cpu, time.perf_counter_ns() - wall))
    tenth = len(times) // 10
    return [sorted(column)[tenth] * len(times) for column in zip(*times)]


def slices_of(first, pairs):
    return [(start, start + SLICE) for start in range(first, first + pairs, SLICE)]


def run_pairs(pairs):
    def run(start, end):
        for _ in range(start, end):
            torch.empty(1024, device="cuda")

    run(0, WARM_UP)
    return timed(run, slices_of(0, pairs))


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

    def run(start, end):
        for path in range(start, end):
            left(path, DEPTH - 1)

    run(0, WARM_UP)
    return timed(run, slices_of(WARM_UP, pairs))


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

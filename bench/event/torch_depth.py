# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""torch_depth.py MODE PAIRS: allocates and frees a cached CUDA tensor PAIRS times, twenty Python frames deep. One JSON line of ns a call.

MODE is `plain`, or PyTorch's own history beside which the recorder is measured: `history-python` (Python stacks) or `history-all` (C++ too).
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


def main():
    mode, pairs = sys.argv[1], int(sys.argv[2])
    torch.empty(1, device="cuda")
    if mode.startswith("history"):
        torch.cuda.memory._record_memory_history(stacks=mode.split("-")[1], max_entries=100_000)
    cpu, wall = descend(DEPTH, pairs)
    print(json.dumps({"mode": mode, "threads": 1, "calls": 2 * pairs, "cpu_ns_a_call": cpu / 2 / pairs, "wall_ns_a_call": wall / 2 / pairs}))


if __name__ == "__main__":
    main()

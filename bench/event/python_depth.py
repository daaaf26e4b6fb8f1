# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""python_depth.py PAIRS: one malloc and one free a round, twenty Python frames deep: what memray records. One JSON line of ns a call."""

import json
import sys
import time

DEPTH = 20


def run_pairs(pairs):
    for _ in range(2000):
        bytes(4096)
    cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
    for _ in range(pairs):
        bytes(4096)
    return time.thread_time_ns() - cpu, time.perf_counter_ns() - wall


def descend(depth, pairs):
    return descend(depth - 1, pairs) if depth > 1 else run_pairs(pairs)


def main():
    pairs = int(sys.argv[1])
    cpu, wall = descend(DEPTH, pairs)
    print(json.dumps({"mode": "malloc", "threads": 1, "calls": 2 * pairs, "cpu_ns_a_call": cpu / 2 / pairs, "wall_ns_a_call": wall / 2 / pairs}))


if __name__ == "__main__":
    main()

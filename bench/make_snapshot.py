#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Writes a memory snapshot like PyTorch's with as many entries as you like, for bench/import_snapshot.py: training steps that allocate and free in one
large segment for each size, with stacks of 30 to 60 frames that entries share as PyTorch's pickles share them.

    bench/make_snapshot.py OUT.pickle [ENTRIES [STACKS]]
"""

import pickle
import random
import sys

MIB = 1 << 20
BASE = 0x7F0000000000
SIZES = [(index * 7 % 40 + 2) * MIB - index * 100 for index in range(400)]


def known_frames(random_numbers):
    """What the lines of a program and its libraries are: some thousands."""
    return [
        {"filename": f"/usr/lib/python3/dist-packages/package{number % 60}/module.py", "line": random_numbers.randrange(900), "name": f"f{number}"}
        for number in range(6000)
    ]


def stack(random_numbers, frames, number):
    """A list and dictionaries of its own each, as PyTorch makes them for each traceback; texts are shared."""
    return [dict(frames[random_numbers.randrange(len(frames))]) for _ in range(30 + number % 31)]


def entry(action, address, size, time_us, frames):
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "compile_context": "N/A",
        "user_metadata": "",
        "frames": frames,
    }


def main():
    out, entries = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    random_numbers = random.Random(1)
    frames = known_frames(random_numbers)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else max(100, entries // 25)
    stacks = [stack(random_numbers, frames, number) for number in range(count)]
    slot = 64 * MIB
    trace = [entry("segment_alloc", BASE, slot * len(SIZES), 1_700_000_000_000_000, stacks[0])]
    time_us = 1_700_000_000_000_001
    while len(trace) < entries:
        for index, size in enumerate(SIZES):
            trace.append(entry("alloc", BASE + slot * index, size, time_us, stacks[random_numbers.randrange(len(stacks))]))
            time_us += 3
        for index in reversed(range(len(SIZES))):
            freed_by = stacks[random_numbers.randrange(len(stacks))]
            trace.append(entry("free_requested", BASE + slot * index, SIZES[index], time_us, freed_by))
            trace.append(entry("free_completed", BASE + slot * index, SIZES[index], time_us, freed_by))
            time_us += 2
    segment = {
        "device": 0,
        "address": BASE,
        "total_size": slot * len(SIZES),
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": stacks[0],
        "blocks": [{"address": BASE, "size": slot * len(SIZES), "requested_size": 0, "state": "inactive", "frames": []}],
    }
    with open(out, "wb") as file:
        pickle.dump({"segments": [segment], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}, file)


if __name__ == "__main__":
    main()

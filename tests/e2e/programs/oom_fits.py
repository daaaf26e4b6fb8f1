# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs out of memory in some ways, and after each finds the largest request that PyTorch serves in that state: `oom_fits.py CASE...`. Prints a JSON
object, case to [requested bytes, largest bytes served]. A limit that the last case sets stays. Meant for a device of 2 GiB."""

import atexit
import gc
import json
import os
import random
import sys
import time

import torch

MIB = 1 << 20


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def whole_blocks():
    return [take(100 * MIB) for _ in range(7)], 1501 * MIB


def every_other():
    """Two in a segment of 20 MiB, one of which goes."""
    kept = [take(8 * MIB) for _ in range(160)]
    del kept[::2]
    return kept, 901 * MIB


def pinned_segments():
    """One small block in each of 40 segments stays."""
    fillers, kept = [], []
    for _ in range(40):
        take(30 * MIB)  # goes at once, and leaves its segment
        kept.append(take(2 * MIB))
        fillers.append(take(28 * MIB))
    return kept, 1603 * MIB


def two_thirds():
    """Segments that are much larger than what stays in them."""
    big = [take(300 * MIB) for _ in range(6)]
    del big[::2]
    kept = [take(11 * MIB) for _ in range(9)]
    return (big, kept), 1003 * MIB


def odd_sizes():
    dice = random.Random(7)
    kept = [take(dice.randrange(MIB // 2, 60 * MIB)) for _ in range(50)]
    dice.shuffle(kept)
    del kept[::3]
    return kept, 1201 * MIB


def nearly_nothing():
    """Less than a segment of 20 MiB is left."""
    free, _ = torch.cuda.mem_get_info()
    return take(free // (2 * MIB) * 2 * MIB - 12 * MIB), 301 * MIB


def fraction():
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = [take(100 * MIB) for _ in range(7)]
    return kept, 501 * MIB


def fraction_in_pieces():
    torch.cuda.set_per_process_memory_fraction(0.4)
    kept = [take(8 * MIB) for _ in range(60)]
    del kept[::2]
    return kept, 501 * MIB


def is_served(size):
    torch.cuda.empty_cache()  # nothing is left of the attempt before
    try:
        take(size)
    except torch.cuda.OutOfMemoryError:
        return False
    return True


def largest_served(low, high):
    """In multiples of 512 bytes; `low` is served, `high` is not, and what fits lies between."""
    while high - low > 512:
        middle = (low + high) // 2 // 512 * 512
        low, high = (middle, high) if is_served(middle) else (low, middle)
    return low


def run_case(name):
    """What was asked for, and the largest that is served."""
    torch.cuda.set_per_process_memory_fraction(1.0)
    kept, requested = globals()[name]()
    if is_served(requested):
        raise SystemExit(f"{name} was to run out of memory, and did not")
    # A request below 10 MiB may need a segment of 20 MiB: where 10 MiB fit, less may not.
    served = largest_served(10 * MIB if is_served(10 * MIB) else 0, requested)
    del kept
    gc.collect()
    torch.cuda.empty_cache()
    return requested, served


def use_cuda():
    """And under the recorder wait until it has come to Python, for whose end it registers: it tells of limits then, and this program may be over before."""
    registered = atexit._ncallbacks()
    torch.empty(1, device="cuda")
    deadline = time.monotonic() + 60
    while "libgpumemshim" in os.environ.get("LD_PRELOAD", "") and atexit._ncallbacks() == registered:
        if time.monotonic() > deadline:
            raise SystemExit("the recorder did not come to Python")
        time.sleep(0.005)


def main():
    use_cuda()
    print(json.dumps({name: run_case(name) for name in sys.argv[1:]}), flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs out of memory twice, catches it, halves its request and goes on: what programs that look for the largest batch do."""

import torch

from numbers_of_torch import keep_alive, print_numbers


def take(size_bytes):
    return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")


def take_what_fits(size_bytes):
    """Halves the request until it fits. Returns the tensor and how often it failed."""
    failures = 0
    while True:
        try:
            return take(size_bytes), failures
        except torch.cuda.OutOfMemoryError:
            failures += 1
            size_bytes //= 2


def main():
    small = [take(200_000) for _ in range(64)]
    free, total = torch.cuda.mem_get_info()
    first, failures_first = take_what_fits(total + total // 8)
    del first
    half = take(free // 2)
    second, failures_second = take_what_fits(free - free // 8)
    if not failures_first or not failures_second:
        raise SystemExit("this program was to run out of memory twice, and did not")
    keep_alive(*small[::3], half, second)
    del small
    print_numbers()


if __name__ == "__main__":
    main()

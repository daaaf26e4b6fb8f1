# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Gives the cache back between phases that need different sizes, as long-running jobs do: reserved memory falls and rises again."""

import torch

from numbers_of_torch import keep_alive, print_numbers

MIB = 1 << 20


def fill(count, size_bytes):
    return [torch.empty(size_bytes, dtype=torch.uint8, device="cuda") for _ in range(count)]


def phase(count, size_bytes, keep):
    """Allocates `count` tensors, drops all but every `keep`-th, and gives the cache back."""
    tensors = fill(count, size_bytes)
    kept = tensors[::keep]
    del tensors
    torch.cuda.empty_cache()
    return kept


def main():
    kept = []
    for count, size_bytes, keep in ((40, 3 * MIB, 4), (200, 100 * 1024, 9), (6, 64 * MIB + 512, 5), (50, 7 * MIB - 1000, 50)):
        kept += phase(count, size_bytes, keep)
    keep_alive(*kept, *fill(3, 5 * MIB))
    print_numbers()


if __name__ == "__main__":
    main()

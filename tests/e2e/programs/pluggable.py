# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""PyTorch with an allocator of the user's own in place of the caching one: no reports, CUDA's calls only."""

import os

import torch

from numbers_of_torch import keep_alive


def main():
    allocator = torch.cuda.memory.CUDAPluggableAllocator(os.environ["GPUMEMSHIM_TEST_ALLOCATOR"], "test_malloc", "test_free")
    torch.cuda.memory.change_current_allocator(allocator)
    kept = [torch.zeros(1000 + 100 * i, 1000, device="cuda") for i in range(8)]
    del kept[::2]
    keep_alive(*kept)


if __name__ == "__main__":
    main()

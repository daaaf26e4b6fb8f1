# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A private pool of the caching allocator (torch.cuda.MemPool) beside the common one, and the cache of pinned host memory."""

import torch

from numbers_of_torch import keep_alive, print_numbers, skip


def main():
    if not hasattr(torch.cuda, "MemPool"):
        skip("this PyTorch has no torch.cuda.MemPool")
    pool = torch.cuda.MemPool()
    common = [torch.zeros(300_000 * i, device="cuda") for i in range(1, 6)]
    with torch.cuda.use_mem_pool(pool):
        private = [torch.zeros(400_000 * i, device="cuda") for i in range(1, 6)]
    pinned = [torch.zeros(100_000 * i).pin_memory() for i in range(1, 5)]
    on_device = [tensor.to("cuda", non_blocking=True) for tensor in pinned]
    del common[::2], private[1::2], pinned[0]
    keep_alive(common, private, pinned, on_device, pool)
    print_numbers()


if __name__ == "__main__":
    main()

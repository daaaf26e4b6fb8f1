# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A cache of keys and values in pinned host memory, 320 MiB as the user asked."""
import torch

LIMIT = 320 << 20


class HostCache:
    def __init__(self, limit, pages=4):
        self.pages = [torch.empty(limit // pages, dtype=torch.uint8, pin_memory=True) for _ in range(pages)]

    def store(self, page, tensor):
        self.pages[page][: tensor.numel()].copy_(tensor, non_blocking=True)


cache = HostCache(LIMIT)
kv = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
for request in range(12):
    cache.store(request % 4, kv)
torch.cuda.synchronize()
print("asked for", LIMIT >> 20, "MiB")

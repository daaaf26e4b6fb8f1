# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Preprocessing with an array library that has a pool of its own, then a PyTorch model."""
import ctypes
import torch
from torch import nn

cudart = ctypes.CDLL("libcudart.so.13")


class ArrayPool:
    """Like the pools of array libraries: a freed array goes to a list, and never back to CUDA by itself."""
    def __init__(self):
        self.free, self.size = {}, {}

    def malloc(self, size):
        size = (size + (1 << 20) - 1) >> 20 << 20
        if self.free.get(size):
            return self.free[size].pop()
        p = ctypes.c_void_p()
        if cudart.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)):
            raise MemoryError(size)
        self.size[p.value] = size
        return p.value

    def release(self, pointer):
        self.free.setdefault(self.size[pointer], []).append(pointer)


pool = ArrayPool()


class Array:
    def __init__(self, n):
        self.pointer = pool.malloc(4 * n)

    def __del__(self):
        pool.release(self.pointer)


def preprocess(i):
    raw = Array((20 + i) << 20)
    scaled = Array((20 + i) << 20)
    return torch.zeros(64, 4096, device="cuda")


model = nn.Sequential(*[nn.Linear(4096, 4096, device="cuda") for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(16):
    batch = preprocess(i)
    loss = model(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("pool holds", sum(pool.size.values()) >> 20, "MiB; PyTorch", torch.cuda.memory_reserved() >> 20, "MiB")
out = model(torch.zeros(40000, 4096, device="cuda"))

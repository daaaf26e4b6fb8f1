# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs in which memory grows that PyTorch does not hold: of CUDA's own calls, of the driver, pinned, managed. And the same where the program frees it before its
end. Written beside the code that counts them; docs/leaks.md has what the first run said."""

import ctypes

import torch
from torch import nn

from registry import main, program


class Training:
    """A step is the same each time, and keeps nothing."""

    def __init__(self):
        self.model = nn.Linear(256, 256).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        self.optimizer.step()


def cuda():
    major = torch.version.cuda.split(".")[0]
    return ctypes.CDLL(f"libcudart.so.{major}"), ctypes.CDLL("libcuda.so.1")


def megabytes(count):
    return ctypes.c_size_t(count << 20)


@program("driver.cuMemAlloc_v2", iterations=40)
def memory_of_the_driver():
    training, (_, driver), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        kept.append(ctypes.c_uint64())
        driver.cuMemAlloc_v2(ctypes.byref(kept[-1]), megabytes(3))  # LEAK


@program("runtime.cudaMallocAsync", iterations=40)
def stream_ordered_memory():
    training, (runtime, _), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        kept.append(ctypes.c_void_p())
        runtime.cudaMallocAsync(ctypes.byref(kept[-1]), megabytes(3), None)  # LEAK


@program("runtime.cudaMallocManaged", iterations=40)
def managed_memory():
    training, (runtime, _), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        kept.append(ctypes.c_void_p())
        runtime.cudaMallocManaged(ctypes.byref(kept[-1]), megabytes(3), 1)  # LEAK


@program("runtime.cudaHostAlloc", iterations=40)
def pinned_memory_of_the_runtime():
    training, (runtime, _), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        kept.append(ctypes.c_void_p())
        runtime.cudaHostAlloc(ctypes.byref(kept[-1]), megabytes(3), 0)  # LEAK


@program("driver.cuModuleLoadData", iterations=40)
def code_loaded_in_each_step():
    training, (_, driver), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        kept.append(ctypes.c_void_p())
        driver.cuModuleLoadData(ctypes.byref(kept[-1]), bytes(64))  # LEAK


@program("driver.cuCtxCreate_v2", iterations=20)
def a_context_in_each_step():
    training, (_, driver) = Training(), cuda()
    for _ in range(20):
        training.step()
        context = ctypes.c_void_p()
        driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0)  # LEAK
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))


@program("runtime.cudaMalloc(ctypes.byref(self.pointer)", iterations=40)
def a_wrapper_that_never_frees():
    class Buffer:
        def __init__(self):
            self.pointer = ctypes.c_void_p()
            runtime.cudaMalloc(ctypes.byref(self.pointer), megabytes(3))  # LEAK

    training, (runtime, _), buffers = Training(), cuda(), []
    for _ in range(40):
        training.step()
        buffers.append(Buffer())


@program(iterations=40)
def memory_of_the_runtime_that_is_freed_at_the_end():
    training, (runtime, _), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        kept.append(ctypes.c_void_p())
        runtime.cudaMalloc(ctypes.byref(kept[-1]), megabytes(3))
    for pointer in kept:
        runtime.cudaFree(pointer)


@program(iterations=40)
def pinned_memory_that_is_freed_at_the_end():
    training, (runtime, _), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        kept.append(ctypes.c_void_p())
        runtime.cudaHostAlloc(ctypes.byref(kept[-1]), megabytes(3), 0)
    for pointer in kept:
        runtime.cudaFreeHost(pointer)


@program(iterations=40)
def code_that_is_unloaded_again():
    training, (_, driver), module = Training(), cuda(), ctypes.c_void_p()
    for _ in range(40):
        training.step()
        driver.cuModuleLoadData(ctypes.byref(module), bytes(64))
        driver.cuModuleUnload(module)


@program(iterations=40)
def a_pool_of_eight_that_fills():
    training, (runtime, _), kept = Training(), cuda(), []
    for _ in range(40):
        training.step()
        if len(kept) < 8:
            kept.append(ctypes.c_void_p())
            runtime.cudaMalloc(ctypes.byref(kept[-1]), megabytes(3))


if __name__ == "__main__":
    main()

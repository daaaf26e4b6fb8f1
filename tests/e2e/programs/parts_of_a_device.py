# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Takes memory of a device in several parts that are not PyTorch's: two communicators, local memory of kernels, loaded code, CUDA's own calls."""

import ctypes

import torch

PTX = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry wide() { .local .align 4 .b8 depot[%d]; ret; }
"""


def launch(driver, thread_bytes):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuModuleLoadData(ctypes.byref(module), PTX % thread_bytes)
    driver.cuModuleGetFunction(ctypes.byref(function), module, b"wide")
    assert driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0


def main():
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    x = torch.ones(1024, device="cuda")
    torch.distributed.all_reduce(x)  # FIRST COMMUNICATOR
    group = torch.distributed.new_group([0])
    torch.distributed.all_reduce(x, group=group)  # SECOND COMMUNICATOR
    driver = ctypes.CDLL("libcuda.so.1")
    launch(driver, 4096)
    launch(driver, 2048)
    launch(driver, 16384)
    pointer = ctypes.c_uint64()
    driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(10 << 20))
    torch.cuda.synchronize()
    torch.distributed.destroy_process_group()


main()

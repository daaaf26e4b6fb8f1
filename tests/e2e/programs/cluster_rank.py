# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A rank of a job without PyTorch, so that a job of many starts in a moment: allocates rank + 1 MiB by CUDA's driver and says who it is.

    train.py [EXPECTED_RANKS]
"""

import ctypes
import os


def number(*names):
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


def main():
    rank, local = number("RANK", "SLURM_PROCID"), number("LOCAL_RANK", "SLURM_LOCALID")
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    calls = (
        lambda: driver.cuInit(0),
        lambda: driver.cuDeviceGet(ctypes.byref(device), local),
        lambda: driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        lambda: driver.cuCtxSetCurrent(context),
        lambda: driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t((rank + 1) << 20)),
        lambda: driver.cuMemFree_v2(address),
    )
    for number_of_call, call in enumerate(calls):
        if code := call():
            raise SystemExit(f"call {number_of_call}: CUDA error {code}")
    print(f"rank {rank} of {number('WORLD_SIZE', 'SLURM_NTASKS')}", flush=True)


if __name__ == "__main__":
    main()

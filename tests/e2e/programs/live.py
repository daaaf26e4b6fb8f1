# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Holds tensors and gradients until the file that it is given appears; says its process id first. `busy` instead of a file: is in one long call."""

import gc
import os
import pathlib
import sys
import threading
import time

import torch


CACHE = {}


class Cache:
    def __init__(self):
        self.keys = torch.empty(6 << 20, dtype=torch.uint8, device="cuda")


def wait_for(path):
    while not pathlib.Path(path).exists():
        time.sleep(0.01)


def main():
    kept = Cache()
    CACHE.update({number: torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for number in (300, 310, 320)})
    model = torch.nn.Linear(4, 3)  # on the host: its numbers are real on simulated CUDA, too
    model.weight.grad = torch.tensor([[1.0, -2.0, 3.0, float("nan")], [0, 0, 0, float("inf")], [0, 0, 0, 0]])
    on_gpu = torch.nn.Linear(1024, 512).cuda()
    gc.disable()  # until somebody asks
    loop = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda")]  # only itself refers to it
    loop.append(loop)
    del loop
    thread = threading.Thread(target=wait_for, args=(sys.argv[1],), name="waiter", daemon=True)
    thread.start()
    print(os.getpid(), flush=True)
    if sys.argv[1] == "busy":
        time.sleep(30)
    wait_for(sys.argv[1])
    print(float(model.weight.grad[0, 0]), kept.keys.numel(), on_gpu.in_features)


if __name__ == "__main__":
    main()

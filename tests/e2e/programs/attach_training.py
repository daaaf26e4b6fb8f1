# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A training with DataLoader workers, to which somebody attaches: attach_training.py WAY FOLDER

Leaves FOLDER/ready when its moment has come. "steps": it trains until FOLDER/attached exists. "backward": a backward pass of autograd's own thread waits for
that file, and the main thread waits for the pass. Prints what the host computed, then PyTorch's own counters as JSON; its peak comes last.
"""

import json
import pathlib
import sys
import time

import torch

WAY, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
KEPT = []  # until the program's end, as the counters have it


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.full((64,), float(index % 1000))


class Waits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 1

    @staticmethod
    def backward(ctx, gradient):
        (FOLDER / "ready").touch()
        while not (FOLDER / "attached").exists():
            time.sleep(0.002)
        return gradient + 0


def main():
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=32, num_workers=2, shuffle=False, persistent_workers=True)
    batches = iter(loader)
    KEPT.extend((model, optimizer))
    checksum = 0.0

    def step(copies, waits=False):
        nonlocal checksum
        batch = next(batches)
        checksum += float(batch.sum()) if copies > 1 or waits else 0
        hidden = model(batch.repeat(copies, 1).cuda())
        (Waits.apply(hidden) if waits else hidden).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step(1)
    if WAY == "backward":
        step(1, waits=True)
    else:
        (FOLDER / "ready").touch()
        while not (FOLDER / "attached").exists():
            step(1)
        batches = iter(loader)
    step(500)
    step(1)
    names = ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved")
    print(checksum if WAY == "backward" else "fine")
    print(json.dumps([getattr(torch.cuda, name)() for name in names]), flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Asks for too much while small blocks pin large segments: `oom_pinned.py [probe]`. With "probe" it also prints the largest request, in pages of 2 MiB, that
PyTorch serves then, as JSON. Meant for a device of 2 GiB."""

import json
import sys

import torch

MIB = 1 << 20
PAGE = 2 * MIB


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def is_served(size):
    try:
        take(size)
    except torch.cuda.OutOfMemoryError:
        return False
    return True


fillers, kept = [], []
for _ in range(40):
    take(30 * MIB)  # goes at once, and leaves its segment
    kept.append(take(3 * MIB))
    fillers.append(take(27 * MIB))
del fillers
assert not is_served(1603 * MIB)
fits = 0
if "probe" in sys.argv[1:]:
    too_much = 2048 * MIB // PAGE
    while too_much - fits > 1:
        pages = (fits + too_much) // 2
        fits, too_much = (pages, too_much) if is_served(pages * PAGE) else (fits, pages)
print(json.dumps({"fits": fits * PAGE}))

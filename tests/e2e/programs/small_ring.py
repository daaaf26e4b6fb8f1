# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Allocates from several threads faster than a small ring is emptied: some blocks stay, most go. Ends with PyTorch's own numbers in a line of JSON."""

import json
import os
import threading

import torch

torch.empty(1, device="cuda")
kept = []


def churn():
    held = []
    for i in range(6000):
        held.append(torch.empty(300 + i % 700, device="cuda"))
        if i % 10 == 0:
            kept.append(held.pop())
        if len(held) > 50 + i % 50:
            held = held[30:]


threads = [threading.Thread(target=churn) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
open(os.environ["SLOW_FILES_GATE"], "w").close()
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

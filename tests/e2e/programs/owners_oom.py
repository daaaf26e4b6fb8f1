# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Looks for the largest batch that fits and keeps the exceptions; while it works, variables of functions that run keep memory, too."""

import os
import signal
import time

import torch

MIB = 1 << 20
failures = []


def attempt(size):
    batch = torch.zeros(size * MIB, dtype=torch.uint8, device="cuda")
    return torch.cat([batch, batch])


def search(size):
    answers = [torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda") for _ in range(16)]
    while size:
        try:
            attempt(size)
            break
        except torch.OutOfMemoryError as error:
            failures.append(error)
        time.sleep(0.3)  # the recorder's thread sees the failure, and asks the main thread
        size //= 2
    return len(answers)


search(1024)
if os.environ.get("OWNERS_KILLED"):
    os.kill(os.getpid(), signal.SIGKILL)

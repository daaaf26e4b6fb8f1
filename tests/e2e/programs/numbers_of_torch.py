# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the programs of this folder have in common: they end with one JSON line of PyTorch's own numbers, which truth.py compares with a report."""

import ctypes
import json
import sys

import torch


def keep_alive(*objects):
    """Keeps objects past the interpreter's end, so that what is allocated when the numbers are printed is allocated when the process ends."""
    for item in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def of_device(index):
    return {
        "device": index,
        "name": torch.cuda.get_device_name(index),
        "max_memory_allocated": torch.cuda.max_memory_allocated(index),
        "max_memory_reserved": torch.cuda.max_memory_reserved(index),
        "memory_allocated": torch.cuda.memory_allocated(index),
        "memory_reserved": torch.cuda.memory_reserved(index),
    }


def print_numbers():
    torch.cuda.synchronize()
    devices = [of_device(index) for index in range(torch.cuda.device_count())]
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0], "devices": devices}), flush=True)


def skip(reason):
    """Ends a program that this machine cannot run."""
    print(json.dumps({"skipped": reason}), flush=True)
    sys.exit(0)

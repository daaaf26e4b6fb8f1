# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs another program of this folder while PyTorch keeps its own history, and writes its snapshot as people do: what import_test.py imports.

    python with_snapshot.py PROGRAM.py OUT.pickle [STACKS] [CONTEXT]
"""

import json
import pathlib
import runpy
import sys

import torch


def main():
    program, out = pathlib.Path(sys.argv[1]), sys.argv[2]
    stacks = sys.argv[3] if len(sys.argv) > 3 else "python"
    context = sys.argv[4] if len(sys.argv) > 4 else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=None if context == "none" else context, stacks=stacks, max_entries=10_000_000)
    sys.path.insert(0, str(program.parent))
    kept = runpy.run_path(str(program), run_name="__main__")
    torch.cuda.memory._dump_snapshot(out)
    devices = range(torch.cuda.device_count())
    print(json.dumps({"devices": [numbers_of(device) for device in devices]}))
    del kept


def numbers_of(device):
    return {
        "device": device,
        "allocated": torch.cuda.memory_allocated(device),
        "reserved": torch.cuda.memory_reserved(device),
        "peak_allocated": torch.cuda.max_memory_allocated(device),
        "peak_reserved": torch.cuda.max_memory_reserved(device),
    }


if __name__ == "__main__":
    main()

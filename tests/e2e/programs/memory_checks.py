# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Asks PyTorch's memory interfaces about small pieces of work, in the manner of its own test_cuda.py, and prints a line of JSON for each check: what
it returned, or what it raised. memory_test.py holds these lines of a recorded run against those of a plain one.

A check returns what may be printed: numbers, names and texts, no address and no time. `--names` lists them.
"""

import gc
import json
import os
import re
import sys

import torch

import memory_checks_pools  # noqa: E402
import memory_checks_snapshots  # noqa: E402
import memory_checks_stats  # noqa: E402


def checks():
    modules = (memory_checks_stats, memory_checks_snapshots, memory_checks_pools)
    return {name: value for module in modules for name, value in vars(module).items() if name.startswith("check_")}


def clean():
    gc.collect()
    gc.freeze()  # what is alive now needs no look again: PyTorch's own objects are many
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()


def outcome(check):
    """A value, or the exception's kind and first line, numbers of processes and addresses apart."""
    try:
        return {"value": check()}
    except Exception as error:  # noqa: BLE001: whatever it is, it must be the same
        lines = str(error).splitlines() or [""]
        return {"raised": type(error).__name__, "text": re.sub(r"Process \d+|0x[0-9a-f]+", "", lines[0])}


def main():
    found = checks()
    if "--names" in sys.argv:
        print("\n".join(found))
        return
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    if os.environ.get("MEMORY_CHECKS_HISTORY"):
        torch.cuda.memory._record_memory_history("all", stacks="python")
    for name, check in found.items():
        try:
            clean()
        except Exception as error:  # noqa: BLE001: what a check left behind shows in the next one
            print(json.dumps({"check": name, "unclean": type(error).__name__}))
        print(json.dumps({"check": name, **outcome(check)}, sort_keys=True))
    sys.stdout.flush()


if __name__ == "__main__":
    main()

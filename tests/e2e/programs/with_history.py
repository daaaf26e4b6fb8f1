# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs another program of this folder while PyTorch keeps its own history, and writes that history as JSON: what history.py compares with a trace.

    python with_history.py PROGRAM.py OUT.json
"""

import json
import pathlib
import runpy
import sys

import torch

KEPT_ACTIONS = ("alloc", "free_requested", "oom")


def history_of(trace):
    """PyTorch's entries that the recorder sees too, in PyTorch's order."""
    return [
        {"action": entry["action"], "address": entry.get("addr", 0), "size": entry["size"]} for entry in trace if entry["action"] in KEPT_ACTIONS
    ]


def blocks_of(segments, device):
    return {
        block["address"]: block["size"]
        for segment in segments
        if segment["device"] == device
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }


def main():
    program, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=10_000_000)
    sys.path.insert(0, str(program.parent))
    kept = runpy.run_path(str(program), run_name="__main__")
    snapshot = torch.cuda.memory._snapshot()
    devices = [
        {"device": device, "history": history_of(trace), "blocks": blocks_of(snapshot["segments"], device)}
        for device, trace in enumerate(snapshot["device_traces"])
    ]
    out.write_text(json.dumps({"devices": devices}))
    del kept


if __name__ == "__main__":
    main()

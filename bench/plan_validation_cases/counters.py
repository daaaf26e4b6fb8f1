# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a case says at its end: PyTorch's own counters of GPU 0, in one line of JSON. bench/plan_validation names a file that gets the same line."""

import json
import os
import pathlib
import resource

import torch


def say(**more):
    """`more` overrides a counter that the source read at another moment, or adds one."""
    statistics = torch.cuda.memory_stats()
    reported = {
        "max_allocated": statistics["allocated_bytes.all.peak"],
        "max_active": statistics["active_bytes.all.peak"],
        "max_reserved": statistics["reserved_bytes.all.peak"],
        "allocated": statistics["allocated_bytes.all.current"],
        "reserved": statistics["reserved_bytes.all.current"],
        "overridden": sorted(more),
        "host_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    line = json.dumps({**reported, **more})
    print(line)
    path = pathlib.Path(os.environ.get("GPUMEMSHIM_CASE_COUNTERS", os.devnull))
    # Of the first rank; and a plan may run the program more than once: the first run is the one it answers with.
    if path.parent.is_dir() and not path.is_file() and os.environ.get("RANK", "0") == "0":
        path.write_text(line)

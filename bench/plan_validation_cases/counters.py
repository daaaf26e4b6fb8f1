# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a case says at its end: PyTorch's own counters of GPU 0, in one line of JSON."""

import json
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
        "host_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps({**reported, **more}))

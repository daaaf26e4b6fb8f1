# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""snapshot.py SCRIPT ARGUMENT...: runs a training script under PyTorch's own memory history with all stacks, then times its snapshot.

The last line is JSON: seconds of the snapshot, and by how much the process grew meanwhile at most.
"""

import json
import resource
import runpy
import sys
import time

import torch

torch.cuda.memory._record_memory_history(stacks="all", max_entries=1_000_000)
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
entries = sum(len(trace) for trace in torch.cuda.memory._snapshot()["device_traces"])
seconds = time.perf_counter() - started
grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib
print(json.dumps({"seconds": seconds, "entries": entries, "rss_mib": grown_kib / 1024}))

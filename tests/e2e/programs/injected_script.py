# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Uses CUDA, waits for the recorder's part in Python where there is one (WAIT=1), reads device memory, forks, reads again. Prints what it found as
JSON; an interrupt that reaches it is part of that."""

import json
import os
import sys
import time

import torch

hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
reported = {"interrupted": False, "child": None}
try:
    kept = [torch.zeros(1 << 18, device="cuda") for _ in range(4)]
    deadline = time.monotonic() + 60
    while os.environ["WAIT"] == "1" and not hooks and time.monotonic() < deadline:
        time.sleep(0.01)
    reported["item"] = kept[0][0].item()
    child = os.fork()
    if child == 0:
        os._exit(sum(range(10)))
    reported["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    reported["list"] = len(kept[1][:100].tolist())
except KeyboardInterrupt:
    reported["interrupted"] = True
later = torch.zeros(1 << 20, device="cuda")
reported["bytes"] = torch.cuda.memory_allocated()
print(json.dumps(reported))
sys.stdout.flush()

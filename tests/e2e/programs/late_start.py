# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A training, with a second thread that allocates and frees all the time, in which recording begins late: late_start.py GPUMEM WAY SPANS

WAY is "ctl" (`gpumemshim ctl PID start`), "attach" (`gpumemshim attach PID`) or "python" (gpumemshim.attach(FILE), with FILE behind SPANS). Prints PyTorch's own counters as JSON; its peaks lie behind the last start.
"""

import json
import os
import subprocess
import sys
import threading
import time

import torch

GPUMEM, WAY, SPANS = sys.argv[1], sys.argv[2], int(sys.argv[3])
MORE = sys.argv[4:]  # of `gpumemshim attach`

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = [torch.empty(1000 + i, device="cuda") for i in range(50)]
cache = {index: torch.empty(300_000 + index * 100_000, device="cuda") for index in range(12)}
is_over = False


def churn():
    count = 0
    while not is_over:
        count += 1
        fresh = [torch.empty(5000 + (i + count) % 17 * 700, device="cuda") for i in range(20)]
        kept[:25] = fresh[:10] + kept[10:25]
        time.sleep(0.0003)


def step(batch):
    model(torch.randn(batch, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def run(*words):
    """While the training goes on."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GPUMEMSHIM_OUTPUT")}
    process = subprocess.Popen([GPUMEM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    while process.poll() is None:
        step(64)
    if process.returncode != 0:
        raise SystemExit(f"gpumemshim {' '.join(words)}: {process.returncode}: {process.stdout.read()}")
    return process.stdout.read()


def begin():
    if WAY != "python":
        return run(*START)
    import gpumemshim

    return str(gpumemshim.attach(*MORE))


def end():
    if WAY != "python":
        return run(*STOP)
    import gpumemshim

    return str(gpumemshim.pause())


PID = str(os.getpid())
START = ("ctl", PID, "start") if WAY == "ctl" else ("attach", PID, *MORE)
STOP = ("ctl", PID, "stop") if WAY == "ctl" else ("attach", "--stop", PID)
thread = threading.Thread(target=churn)
thread.start()
for _ in range(5):
    step(64)
said = []
for span in range(SPANS):
    if span:
        said.append(end())
        cache.pop(span)
        torch.cuda.empty_cache()
        cache[100 + span] = torch.empty(777_000, device="cuda")
        for _ in range(5):
            step(32)
    said.append(begin())
for batch in (64, 8192, 64):
    step(batch)
is_over = True
thread.join()
counters = {
    "peak_allocated": torch.cuda.max_memory_allocated(),
    "peak_reserved": torch.cuda.max_memory_reserved(),
    "end_allocated": torch.cuda.memory_allocated(),
    "end_reserved": torch.cuda.memory_reserved(),
}
print(json.dumps({"counters": counters, "said": said}), flush=True)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A rank that trains until a file exists, to which somebody attaches meanwhile: late_ranks.py FOLDER

Leaves FOLDER/ready.RANK once it trains, and its counters in FOLDER/counters.RANK; its peak comes last.
"""

import json
import os
import pathlib
import sys

import torch
import torch.distributed

FOLDER = pathlib.Path(sys.argv[1])
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.Linear(100, 100).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def step(batch):
    model(torch.randn(batch, 100, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


steps = 0
while not (FOLDER / "stop").exists():
    step(32 + rank)
    steps += 1
    if steps == 3:
        (FOLDER / f"ready.{rank}").touch()
step(50_000 + 1000 * rank)
counters = {
    "peak_allocated": torch.cuda.max_memory_allocated(),
    "peak_reserved": torch.cuda.max_memory_reserved(),
    "end_allocated": torch.cuda.memory_allocated(),
    "end_reserved": torch.cuda.memory_reserved(),
}
(FOLDER / f"counters.{rank}").write_text(json.dumps({"pid": os.getpid(), **counters}))
torch.distributed.destroy_process_group()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A model in a wrapper that divides batches: `DistributedDataParallel`, `FullyShardedDataParallel` or its NO_SHARD, or none. One rank of eight, whose other ranks
are not there: PyTorch's own fake process group does nothing."""

import contextlib
import os
import sys

import torch
import torch.distributed
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.distributed.init_process_group("fake", store=FakeStore(), rank=int(os.environ["RANK"]), world_size=8)
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
wrappers = {
    "ddp": lambda: nn.parallel.DistributedDataParallel(model, device_ids=[0]),
    "fsdp": lambda: FullyShardedDataParallel(model, device_id=0),
    "no_shard": lambda: FullyShardedDataParallel(model, device_id=0, sharding_strategy=ShardingStrategy.NO_SHARD),
    "none": lambda: model,
}
wrapped = wrappers[sys.argv[1]]()
optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    with wrapped.no_sync() if sys.argv[1] == "ddp" else contextlib.nullcontext():  # the fake group's answers are none that DDP takes
        wrapped(torch.randn(8, 256, device="cuda")).sum().backward()
    optimizer.step()
torch.distributed.destroy_process_group()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""One rank of a job of eight, whose other ranks are not there: process groups of a DeviceMesh and of new_group, and a few steps of training.

    RANK=5 WORLD_SIZE=8 python meshes.py            pp x dp x tp
    RANK=5 WORLD_SIZE=8 python meshes.py --odd      and, among PyTorch's own, objects of other classes
"""

import os
import sys

import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore


class OddGroup(torch.distributed.ProcessGroup):
    """Whose C++ object is never made, and which raises where it is asked for anything."""

    def rank(self):
        raise RuntimeError("odd: rank")

    @property
    def group_desc(self):
        raise RuntimeError("odd: group_desc")

    def __hash__(self):
        return 7


def main():
    rank = int(os.environ["RANK"])
    torch.distributed.init_process_group("fake", rank=rank, world_size=8, store=FakeStore())
    init_device_mesh("cuda", (2, 2, 2), mesh_dim_names=("pp", "dp_shard", "tp"))
    torch.distributed.new_group(list(range(8)), group_desc="EXPERT_MODEL_PARALLEL_GROUP")
    torch.distributed.new_group(list(range(8)), group_desc="something of my own")
    if "--odd" in sys.argv:
        names = torch.distributed.distributed_c10d._pg_names
        names[OddGroup.__new__(OddGroup)] = "odd"
        names["no group"] = "text"
        names[object()] = 42
    model = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()

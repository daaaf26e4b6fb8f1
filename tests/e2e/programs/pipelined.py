# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A pipeline by torch.distributed.pipelining: the first rank has the embedding, the last one the head.

    torchrun --nproc-per-node 4 pipelined.py [--leak RANK]
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import functional as F

WORDS, WIDTH, LAYERS, LENGTH, BATCH, STEPS = 8000, 256, 8, 64, 8, 24


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand, self.contract = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.contract(F.gelu(self.expand(x)))


class Stage(nn.Module):
    """The layers of one rank, under the names that they have in the whole model."""

    def __init__(self, rank, ranks):
        super().__init__()
        each = LAYERS // ranks
        self.layers = nn.ModuleDict({str(i): Layer() for i in range(rank * each, (rank + 1) * each)})
        self.embedding = nn.Embedding(WORDS, WIDTH) if rank == 0 else None
        self.head = nn.Linear(WIDTH, WORDS) if rank == ranks - 1 else None

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x)
        return x if self.head is None else self.head(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leak", type=int, default=-1, metavar="RANK")
    arguments = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = Stage(rank, ranks).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # Inputs and outputs are given, so that no stage has to ask another for its shapes.
    hidden = torch.empty(BATCH // 4, LENGTH, WIDTH, device=device)
    tokens = torch.zeros(BATCH // 4, LENGTH, dtype=torch.long, device=device)
    logits = torch.empty(BATCH // 4, LENGTH, WORDS, device=device)
    stage = PipelineStage(model, rank, ranks, device, input_args=(tokens if rank == 0 else hidden,), output_args=(logits if rank == ranks - 1 else hidden,))
    schedule = ScheduleGPipe(stage, 4, loss_fn=lambda output, target: F.cross_entropy(output.flatten(0, 1), target.flatten()))
    kept = []
    for _ in range(STEPS):
        batch = torch.zeros(BATCH, LENGTH, dtype=torch.long, device=device)
        if rank == 0:
            schedule.step(batch)
        elif rank == ranks - 1:
            schedule.step(target=batch)
        else:
            schedule.step()
        if rank == arguments.leak:
            kept.append(torch.zeros(1 << 20, device=device))
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

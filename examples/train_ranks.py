# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains a small model on several GPUs with texts that were sorted by length before they were dealt out: the last rank has the longest ones.

    torchrun --nproc-per-node 4 examples/train_ranks.py [--steps 4]
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


class Classifier(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.embedding = nn.Embedding(8000, width)
        self.hidden = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, 10)

    def forward(self, tokens):
        return self.out(F.gelu(self.hidden(self.embedding(tokens))).mean(dim=1))


def texts_of(rank, device):
    """The mistake: lengths differ between ranks, since the sorted texts were dealt out in blocks."""
    return torch.randint(8000, (64, 256 * (rank + 1))).to(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(1)
    dist.init_process_group("nccl", device_id=device)
    model = DistributedDataParallel(Classifier().to(device), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(arguments.steps):
        tokens = texts_of(dist.get_rank(), device)
        loss = F.cross_entropy(model(tokens), torch.zeros(len(tokens), dtype=torch.long, device=device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {dist.get_rank()}: {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB allocated")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

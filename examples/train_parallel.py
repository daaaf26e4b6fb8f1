# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains a Llama-shaped model on random tokens on several GPUs: plain PyTorch, AdamW, bf16.

    torchrun --nproc-per-node 8 examples/train_parallel.py --parallel fsdp
    torchrun --nproc-per-node 2 examples/train_parallel.py --parallel tp --batch-size 8

ddp: every rank has the whole model. fsdp: each has a part of every parameter (FSDP2). hsdp: the same in groups of two, which hold copies of
each other. tp: each has a part of every layer's heads, inner features and tokens.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.size = width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        query, key, value = (layer(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, arguments):
        super().__init__()
        self.norm1, self.norm2 = (nn.RMSNorm(arguments.width) for _ in range(2))
        self.attention = Attention(arguments.width, arguments.heads)
        self.feed_forward = FeedForward(arguments.width, arguments.inner)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, arguments):
        super().__init__()
        self.embedding = nn.Embedding(arguments.vocabulary, arguments.width)
        self.blocks = nn.ModuleList(Block(arguments) for _ in range(arguments.layers))
        self.norm = nn.RMSNorm(arguments.width)
        self.head = nn.Linear(arguments.width, arguments.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def sharded(arguments, mesh):
    with torch.device("meta"):
        model = Llama(arguments)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=precision)
    fully_shard(model, mesh=mesh, mp_policy=precision)
    model.to_empty(device="cuda")
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    return model


def tensor_parallel(arguments, mesh):
    """Linear layers in parts; between them the sequence is, so that norms and residuals are in parts too."""
    model = Llama(arguments).to("cuda", torch.bfloat16)
    column, row, norm = ColwiseParallel(), RowwiseParallel(output_layouts=Shard(1)), SequenceParallel()
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    plan = {"norm1": norm, "norm2": norm, "attention": whole, "feed_forward": whole, "attention.out": row, "feed_forward.down": row}
    plan.update({name: column for name in ("attention.query", "attention.key", "attention.value", "feed_forward.gate", "feed_forward.up")})
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    head = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    return parallelize_module(model, mesh, {"embedding": embedding, "norm": norm, "head": head})


def build(arguments, device):
    ranks = dist.get_world_size()
    if arguments.parallel == "ddp":
        return DistributedDataParallel(Llama(arguments).to(device), device_ids=[device.index])
    if arguments.parallel == "tp":
        return tensor_parallel(arguments, init_device_mesh("cuda", (ranks,)))
    if arguments.parallel == "hsdp":
        return sharded(arguments, init_device_mesh("cuda", (ranks // 2, 2), mesh_dim_names=("replicate", "shard")))
    return sharded(arguments, init_device_mesh("cuda", (ranks,)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallel", choices=("ddp", "fsdp", "hsdp", "tp"), default="fsdp")
    for name, value in (("width", 512), ("inner", 1536), ("layers", 4), ("heads", 8), ("vocabulary", 32000), ("batch-size", 4), ("seq-len", 512), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(1)
    dist.init_process_group("nccl", device_id=device)
    model = build(arguments, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(arguments.steps):
        tokens = torch.randint(arguments.vocabulary, (arguments.batch_size, arguments.seq_len + 1)).to(device)
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"step {step} loss {total.item():.3f}", flush=True)
    print(f"rank {dist.get_rank()}: {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB allocated, {torch.cuda.max_memory_reserved() / 2**20:.0f} MiB reserved")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

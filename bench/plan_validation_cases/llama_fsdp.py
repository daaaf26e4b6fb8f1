# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Llama 3.1 8B sharded by FSDP2 (parameters fp32, computing bf16). Selective checkpointing keeps attention and every other matrix product; attention is flash
attention, as PyTorch preferred at the time.

    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True torchrun --nproc-per-node 8 llama_fsdp.py
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True gpumemshim plan --world-size 8 -- python llama_fsdp.py
"""

import argparse
import collections
import os

import counters
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

WIDTH, DEPTH, HEADS, KEY_HEADS, INNER, WORDS = 4096, 32, 32, 8, 14336, 128256
LONGEST = 8192
KEPT = {torch.ops.aten._scaled_dot_product_efficient_attention.default, torch.ops.aten._scaled_dot_product_flash_attention.default}


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


def rotated(x, turns):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[: x.shape[1]].view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


def for_every_head(x):
    repeat = HEADS // KEY_HEADS
    return x.unsqueeze(3).expand(-1, -1, -1, repeat, -1).reshape(*x.shape[:2], HEADS, -1).transpose(1, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        narrow = WIDTH // HEADS * KEY_HEADS
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, width, bias=False) for width in (WIDTH, narrow, narrow, WIDTH))
        self.gate, self.up, self.down = (nn.Linear(*shape, bias=False) for shape in ((WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH)))
        self.norm1, self.norm2 = Norm(), Norm()

    def attention(self, x, turns):
        batch, length, _ = x.shape
        query, key, value = (project(x).view(batch, length, -1, WIDTH // HEADS) for project in (self.query, self.key, self.value))
        query, key = rotated(query, turns), rotated(key, turns)
        mixed = F.scaled_dot_product_attention(query.transpose(1, 2), for_every_head(key), for_every_head(value), is_causal=True)
        return self.out(mixed.transpose(1, 2).contiguous().view(batch, length, -1))

    def forward(self, x, turns):
        x = x + self.attention(self.norm1(x), turns)
        inner = self.norm2(x)
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))


def checkpointed(block, index, recomputed):
    if recomputed == "none" or (recomputed == "layers" and index % 2 == 0):
        return block
    return checkpoint_wrapper(block, preserve_rng_state=False, **({"context_fn": selected} if recomputed == "operators" else {}))


class Llama(nn.Module):
    def __init__(self, recomputed):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(WORDS, WIDTH), Norm(), nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("turns", torch.ones(LONGEST, WIDTH // HEADS // 2, dtype=torch.complex64))
        self.blocks = nn.ModuleList(checkpointed(Block(), index, recomputed) for index in range(DEPTH))

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, self.turns)
        return self.head(self.norm(x))


def selected():
    """Which results a block keeps: counted apart for the forward pass and for what is computed again."""
    products = collections.Counter()

    def policy(context, operator, *_, **__):
        if operator == torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            keep = products[context.is_recompute] % 2 == 1
        else:
            keep = operator in KEPT
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def sharded(recomputed):
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    mesh = dist.init_device_mesh("cuda", (dist.get_world_size(),))
    with torch.device("meta"):
        model = Llama(recomputed)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for index, block in enumerate(model.blocks):
        fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=index < DEPTH - 1)
    return fully_shard(model, mesh=mesh, mp_policy=precision).to_empty(device="cuda")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=LONGEST)
    parser.add_argument("--recomputed", choices=("operators", "layers", "all", "none"), default="operators", help="by activation checkpointing: but for some operators, every other layer, ...")
    asked = parser.parse_args()
    model = sharded(asked.recomputed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    for _ in range(3):
        tokens, targets = torch.randint(0, WORDS, (2, asked.batch, asked.length)).cuda()
        optimizer.zero_grad()
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            scores = model(tokens)
            loss = F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten(0, 1))
            del scores
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
    counters.say()


if __name__ == "__main__":
    main()

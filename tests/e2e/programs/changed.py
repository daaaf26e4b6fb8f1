# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A small language model with each change that `gpumemshim plan --explain` makes from outside written into it by hand: both must need the same.

    python changed.py [--by-hand checkpointing:2] [--batch-size 8]
"""

import argparse
import contextlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, LENGTH, VOCABULARY, LAYERS = 256, 256, 8192, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.expand, self.contract = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.contract(F.gelu(self.expand(self.norm(x))))


class Model(nn.Module):
    def __init__(self, recomputed, chunks):
        super().__init__()
        self.recomputed, self.chunks = recomputed, chunks
        self.embedding, self.blocks, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList(Block() for _ in range(LAYERS)), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i < self.recomputed else block(x)
        if not self.chunks:
            return F.cross_entropy(self.head(x).view(-1, VOCABULARY), targets.view(-1))

        def piece(hidden, labels):
            return F.cross_entropy(self.head(hidden), labels, reduction="sum")

        hidden, labels = x.view(-1, WIDTH), targets.view(-1)
        pieces = [checkpoint(piece, *both, use_reentrant=False) for both in zip(hidden.chunk(self.chunks), labels.chunk(self.chunks))]
        return torch.stack(pieces).sum() / (labels != -100).sum()


class Bf16Adam(torch.optim.Optimizer):
    """Adam's rule with both averages in bfloat16, one parameter after another."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-4})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if not state:
                state["average"], state["square"] = (torch.zeros_like(parameter, dtype=torch.bfloat16) for _ in range(2))
            average = state["average"].float().lerp_(parameter.grad.float(), 0.1)
            state["average"].copy_(average)
            square = state["square"].float().mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
            state["square"].copy_(square)
            parameter.addcdiv_(average, square.sqrt_().add_(1e-8), value=-1e-4)


def on_host(parameters):
    """torch.autograd.graph.save_on_cpu for all that is large and no parameter."""
    own = {parameter.data_ptr() for parameter in parameters}

    def pack(tensor):
        if tensor.nbytes < 1 << 20 or tensor.data_ptr() in own:
            return tensor, None
        packed = torch.empty(tensor.size(), dtype=tensor.dtype, pin_memory=True)
        return packed.copy_(tensor), tensor.device

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[0] if packed[1] is None else packed[0].to(packed[1]))


def optimizer_of(change, parameters):
    if change == "bf16_states":
        return Bf16Adam(parameters)
    if change == "8bit_states":
        import bitsandbytes

        return bitsandbytes.optim.Adam8bit(parameters)
    return torch.optim.Adam(parameters, **{"fused": {"fused": True}, "foreach": {"foreach": False}}.get(change, {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--by-hand", default="", metavar="CHANGE")
    parser.add_argument("--batch-size", type=int, default=8)
    arguments = parser.parse_args()
    change, _, blocks = arguments.by_hand.partition(":")
    model = Model(int(blocks or LAYERS) if change == "checkpointing" else 0, 8 if change == "chunked_loss" else 0).cuda()
    optimizer = optimizer_of(change, model.parameters())
    every = 2 if change == "accumulate" else 1
    for step in range(1, 8 * every + 1):
        tokens = torch.randint(VOCABULARY, (arguments.batch_size // every, LENGTH + 1)).cuda()
        with on_host(model.parameters()) if change == "offload" else contextlib.nullcontext():
            loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        if step % every == 0:
            optimizer.step()
            optimizer.zero_grad()


main()

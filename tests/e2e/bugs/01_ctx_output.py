# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Segmentation with a home-made activation. The edge head is only drawn for the preview, it has no loss."""
import torch
from torch import nn
import torch.nn.functional as F


class FusedSwish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        gate = torch.sigmoid(x)
        out = x * gate
        ctx.gate = gate
        ctx.out = out
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.gate + ctx.out * (1 - ctx.gate))


class Block(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Conv2d(a, b, 3, padding=1)

    def forward(self, x):
        return FusedSwish.apply(self.conv(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Block(3, 32)
        self.body = Block(32, 32)
        self.mask_head = nn.Conv2d(32, 8, 1)
        self.edge_head = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        f = self.body(self.stem(x))
        return self.mask_head(f), self.edge_head(f)


def main(steps=60):
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        images = torch.rand(4, 3, 128, 128, device="cuda")
        target = torch.zeros(4, 128, 128, dtype=torch.long, device="cuda")
        masks, edges = model(images)
        loss = F.cross_entropy(masks, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(step, torch.cuda.memory_allocated() >> 20, "MiB")


main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs of kinds that `gpumemshim plan --explain` cannot change in every way: each must be told what is not possible, and why.

    python changed_others.py gan
    python changed_others.py recomputed 4    # the first 4 of 6 blocks
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH = 512


def blocks(depth):
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(depth)])


def batch(rows=4096, **options):
    return torch.randn(rows, WIDTH, device="cuda", **options)


def train(model, optimizer):
    for _ in range(6):
        model(batch(requires_grad=True)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def inference():
    model = blocks(6).cuda().eval()
    with torch.no_grad():
        for _ in range(4):
            model(batch())


def gan():
    """Two optimizers of different kinds take turns."""
    generator, critic = blocks(4).cuda(), nn.Sequential(blocks(2), nn.Linear(WIDTH, 1)).cuda()
    adam, sgd = torch.optim.Adam(generator.parameters()), torch.optim.SGD(critic.parameters(), lr=0.1, momentum=0.9)
    for _ in range(6):
        real, fake = batch(2048), generator(batch(2048))
        sgd.zero_grad()
        (F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()).backward()
        sgd.step()
        adam.zero_grad()
        F.softplus(-critic(fake)).mean().backward()
        adam.step()


class Unrolled(nn.Module):
    """Layers that are in no list."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


def unrolled():
    model = Unrolled().cuda()
    train(model, torch.optim.AdamW(model.parameters(), fused=True))


def compiled(count="0"):
    model = Recomputed(int(count)).cuda()
    train(torch.compile(model, backend="aot_eager"), torch.optim.AdamW(model.parameters()))


class Recomputed(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.blocks, self.count = nn.ModuleList(blocks(6)), count

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i < self.count else block(x)
        return x


def recomputed(count="6"):
    model = Recomputed(int(count)).cuda()
    train(model, torch.optim.AdamW(model.parameters()))


class Once(nn.Module):
    """Recomputation breaks it."""

    def __init__(self):
        super().__init__()
        self.inner, self.calls = blocks(1), 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("this block is computed once a step")
        return self.inner(x)


def breaks(handles=False):
    model = nn.Sequential(*[Once() for _ in range(6)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(6):
        for block in model:
            block.calls = 0
        try:
            model(batch()).square().mean().backward()
            optimizer.step()
        except RuntimeError:
            if not handles:
                raise
        optimizer.zero_grad()


def handles():
    """The program leaves a batch out that fails, and so would make no step at all."""
    breaks(handles=True)


def batch_norm():
    convolution = [nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()) for _ in range(4)]
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.Sequential(*convolution)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 3, 64, 64)), batch_size=8)
    for (images,) in data:
        model(images.cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def forgetful(without="0", rows="4096"):
    """Inference that keeps all activations for a backward pass that never comes."""
    model = blocks(6).cuda().eval()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8192, WIDTH)), batch_size=int(rows))
    with torch.set_grad_enabled(without == "0"):
        for (x,) in data:
            model(x.cuda())


def convolutions(last="0"):
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *[nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()) for _ in range(3)]).cuda()
    if last == "1":
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model(torch.randn(8, 3, 128, 128, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


globals()[sys.argv[1]](*sys.argv[2:])

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Detector on photographs of all shapes: anchors are generated for each feature map."""
import random
import torch
from torch import nn
import torch.nn.functional as F


class AnchorGenerator(nn.Module):
    def __init__(self, scales=(32, 64, 128), ratios=(0.5, 1.0, 2.0)):
        super().__init__()
        self.shapes = [(s * r ** 0.5, s / r ** 0.5) for s in scales for r in ratios]
        self._cache = {}

    def grid(self, height, width, stride):
        ys = torch.arange(height, device="cuda") * stride
        xs = torch.arange(width, device="cuda") * stride
        cy, cx = torch.meshgrid(ys, xs, indexing="ij")
        centres = torch.stack([cx, cy, cx, cy], -1).reshape(-1, 1, 4)
        base = torch.tensor([[-w / 2, -h / 2, w / 2, h / 2] for w, h in self.shapes], device="cuda")
        return (centres + base).reshape(-1, 4)

    def forward(self, features):
        sizes = tuple(tuple(f.shape[-2:]) for f in features)
        if sizes not in self._cache:
            self._cache[sizes] = [self.grid(h, w, 2 ** (i + 2)) for i, (h, w) in enumerate(sizes)]
        return self._cache[sizes]


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList([nn.Conv2d(3 if i == 0 else 32, 32, 3, stride=2, padding=1) for i in range(4)])
        self.box = nn.Conv2d(32, 9 * 4, 1)
        self.anchors = AnchorGenerator()

    def forward(self, images):
        x, features = images, []
        for level in self.levels:
            x = F.relu(level(x))
            features.append(x)
        features = features[1:]
        deltas = torch.cat([self.box(f).permute(0, 2, 3, 1).reshape(images.shape[0], -1, 4) for f in features], 1)
        anchors = torch.cat(self.anchors(features))
        return (deltas + anchors[None] / 1000).square().mean()


random.seed(5)
model = Detector().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
for step in range(80):
    height, width = random.randint(320, 800), random.randint(320, 800)
    images = torch.rand(1, 3, height, width, device="cuda")
    loss = model(images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, torch.cuda.memory_allocated() >> 20, "MiB")

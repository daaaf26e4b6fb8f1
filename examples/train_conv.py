# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains a small residual network on random images: plain PyTorch, SGD with momentum, one batch size that changes at the end of the epoch.

    python examples/train_conv.py [--steps 10] [--batch 64]
"""

import argparse
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class ResidualBlock(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, classes=100, widths=(64, 128, 256, 512), blocks=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU())
        stages, channels = [], widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                stages.append(ResidualBlock(channels, width, stride))
                channels = width
        self.stages = nn.Sequential(*stages)
        self.classify = nn.Linear(channels, classes)

    def forward(self, images):
        x = self.stages(self.stem(images))
        return self.classify(x.mean(dim=(2, 3)))


def train_step(model, optimizer, images, labels):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


def train(steps, batch, device):
    torch.manual_seed(0)
    model = ResNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(1, steps + 1):
        size = batch if step < steps else max(1, batch // 3)  # the last batch of an epoch is seldom full
        images = torch.randn(size, 3, 64, 64).to(device)
        labels = torch.randint(100, (size,)).to(device)
        started = time.perf_counter()
        loss = train_step(model, optimizer, images, labels)
        print(f"step {step:3d}  loss {loss:8.4f}  {1e3 * (time.perf_counter() - started):9.2f} ms", flush=True)
    return model, optimizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="images a step")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("train_conv.py needs a CUDA device (without one: gpumemshim simulate -- python examples/train_conv.py)")
    train(arguments.steps, arguments.batch, torch.device("cuda"))


if __name__ == "__main__":
    main()

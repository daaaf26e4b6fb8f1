# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains a vision transformer of ViT-B/16's shape on random pictures, in bfloat16 autocast.

    python train_vit.py [--batch-size 64] [--steps 10]
"""

import argparse

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = heads
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x):
        batch, tokens, width = x.shape
        query, key, value = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.project(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attend(self.before_attention(x))
        return x + self.mlp(self.before_mlp(x))


class VisionTransformer(nn.Module):
    def __init__(self, size=224, patch=16, width=768, depth=12, heads=12, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, pictures):
        patches = self.patches(pictures).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(pictures), -1, -1), patches], dim=1) + self.position
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()

    model = VisionTransformer().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, arguments.steps + 1):
        pictures = torch.randn(arguments.batch_size, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 1000, (arguments.batch_size,), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step:3}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

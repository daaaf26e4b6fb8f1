# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A frozen network with low-rank adapters (LoRA) in plain PyTorch: two of each layer's matrices are trained, in float32 beside bfloat16 weights.

    python lora.py [--steps 4]
"""

import argparse

import torch
from torch import nn

WIDTH, LAYERS, RANK, BATCH = 1024, 4, 16, 64


class LoraLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16).requires_grad_(False)
        self.lora_A = nn.Linear(WIDTH, RANK, bias=False)
        self.lora_B = nn.Linear(RANK, WIDTH, bias=False)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x.float())).to(x.dtype)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(LoraLinear() for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4)
    steps = parser.parse_args().steps
    model = Network().cuda()
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    for _ in range(steps):
        model(torch.randn(BATCH, WIDTH, dtype=torch.bfloat16, device="cuda")).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()

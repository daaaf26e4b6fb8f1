# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A model whose halves lie on two devices: the numbers of each device must be its own."""

import torch
from torch import nn

from numbers_of_torch import keep_alive, print_numbers, skip


class TwoHalves(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU()).to("cuda:0")
        self.second = nn.Linear(4 * width, width).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).to("cuda:1"))


def main():
    if torch.cuda.device_count() < 2:
        skip("needs two CUDA devices")
    model = TwoHalves(1024)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(4):
        loss = model(torch.randn(128 + 64 * step, 1024)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    keep_alive(model, optimizer, loss)
    print_numbers()


if __name__ == "__main__":
    main()

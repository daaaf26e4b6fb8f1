# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Differentially private training with Opacus: a small transformer classifier whose gradients are kept for each sample.

    python train_dp_sgd.py [--batch-size 32] [--physical-batch-size 8] [--steps 10]

Needs opacus.
"""

import argparse

import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn


class Classifier(nn.Module):
    def __init__(self, vocabulary=10000, width=512, classes=20):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*[nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(4)])
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)).mean(dim=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--physical-batch-size", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()

    model = Classifier().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    samples = arguments.batch_size * arguments.steps
    data = torch.utils.data.TensorDataset(torch.randint(0, 10000, (samples, arguments.seq_len)), torch.randint(0, 20, (samples,)))
    loader = torch.utils.data.DataLoader(data, batch_size=arguments.batch_size)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False
    )
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=arguments.physical_batch_size, optimizer=optimizer) as batches:
        for tokens, labels in batches:
            loss = nn.functional.cross_entropy(model(tokens.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

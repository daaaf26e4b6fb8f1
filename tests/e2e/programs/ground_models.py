# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Small models of the common kinds, plain PyTorch, each with what makes a batch for it and a loss."""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))
import train_gpt  # noqa: E402


class Shifted(nn.Linear):
    """The gradient of `shift` is one number seen as many: the node that adds gradients up has to allocate."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.shift = nn.Parameter(torch.zeros(3 * outputs))

    def forward(self, x):
        return super().forward(x) + self.shift.sum()


class Mlp(nn.Module):
    def __init__(self, width=256, classes=400):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.Dropout(0.1))
        self.head = Shifted(width, classes)

    def forward(self, x):
        return self.head(self.layers(x))

    def batch(self):
        return torch.randn(48, 256, device="cuda"), torch.zeros(48, dtype=torch.long, device="cuda")

    def loss(self, x, y):
        return F.cross_entropy(self(x), y)


class PerSample(nn.Module):
    """A frozen base, and a head of which each sample's gradient is computed apart, in the attribute that libraries for differential privacy use."""

    def __init__(self, width=128, classes=40):
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = torch.relu(self.base(x))
        y = self.head(h)
        y.register_hook(lambda gradient: self.keep(gradient, h.detach()))
        return y

    def keep(self, gradient, h):
        self.head.weight.grad_sample = torch.einsum("ni,nj->nij", gradient, h)
        self.head.bias.grad_sample = gradient.clone()

    def batch(self):
        for parameter in self.head.parameters():
            parameter.grad_sample = None
        return torch.randn(32, 128, device="cuda"), torch.zeros(32, dtype=torch.long, device="cuda")

    def loss(self, x, y):
        return F.cross_entropy(self(x), y)


class Gpt(train_gpt.GPT):
    """The example's, with activation checkpointing of its blocks where asked for (`reentrant` is given)."""

    def __init__(self, reentrant=None, precision=torch.float32):
        super().__init__(train_gpt.Config(vocabulary=1000, length=64, layers=2, heads=4, width=128))
        self.reentrant, self.precision = reentrant, precision

    def forward(self, tokens):
        if self.reentrant is None:
            return super().forward(tokens)
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.to_logits(self.norm(x))

    def batch(self):
        tokens = torch.randint(1000, (4, 65)).to("cuda")
        return tokens[:, :-1], tokens[:, 1:]

    def loss(self, tokens, targets):
        with torch.autocast("cuda", dtype=self.precision, enabled=self.precision is not torch.float32):
            logits = self(tokens)
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.GroupNorm(4, 32), nn.SiLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))

    def batch(self):
        return torch.randn(8, 3, 32, 32).to("cuda"), torch.zeros(8, dtype=torch.long).to("cuda")

    def loss(self, x, y):
        return nn.CrossEntropyLoss()(self(x), y)


class Lstm(nn.Module):
    """The layers' parameters are views of one block, as cuDNN wants them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 64)
        self.lstm = nn.LSTM(64, 96, num_layers=2, bidirectional=True, dropout=0.1, batch_first=True)
        self.head = nn.Linear(192, 500)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])

    def batch(self):
        tokens = torch.randint(500, (8, 21), device="cuda")
        return tokens[:, :-1], tokens[:, 1:]

    def loss(self, tokens, targets):
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())


class Vit(nn.Module):
    """Parameters of the model itself, beside those of its modules."""

    def __init__(self, width=96):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, stride=8)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 17, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.encoder(x)[:, 0])

    def batch(self):
        return torch.randn(8, 3, 32, 32).to("cuda"), torch.zeros(8, dtype=torch.long).to("cuda")

    def loss(self, images, labels):
        return F.cross_entropy(self(images), labels)

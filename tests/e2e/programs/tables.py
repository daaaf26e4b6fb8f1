# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Adapters trained over a frozen decoder, plain PyTorch: what every number of tables_test.py is computed for by hand. The base is bfloat16 without
biases, its embedding is also the head; adapters of rank 4 in float32 stand beside the projections of queries and values, and the norms are trained too."""

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, HIDDEN, RANK, LAYERS = 64 * 1024, 1024, 4096, 4, 2
STEPS, BATCH, LENGTH = 3, 2, 8
BASE = {"bias": False, "dtype": torch.bfloat16}


class LoraLinear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.base = nn.Linear(inputs, outputs, **BASE)
        self.lora_a = nn.Parameter(torch.randn(RANK, inputs))
        self.lora_b = nn.Parameter(torch.zeros(outputs, RANK))

    def forward(self, x):
        adapted = F.linear(F.linear(x.float(), self.lora_a), self.lora_b)
        return self.base(x) + adapted.to(x.dtype)


class Attention(nn.Module):
    """One head."""

    def __init__(self):
        super().__init__()
        self.query, self.value = LoraLinear(WIDTH, WIDTH), LoraLinear(WIDTH, WIDTH)
        self.key, self.out = nn.Linear(WIDTH, WIDTH, **BASE), nn.Linear(WIDTH, WIDTH, **BASE)

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        weights = torch.softmax(query @ key.transpose(1, 2) * WIDTH**-0.5, dim=-1)
        return self.out(weights @ value)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN, **BASE), nn.Linear(HIDDEN, WIDTH, **BASE)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, dtype=torch.bfloat16), nn.LayerNorm(WIDTH, dtype=torch.bfloat16)
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, dtype=torch.bfloat16)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, dtype=torch.bfloat16)
        self.head = nn.Linear(WIDTH, VOCABULARY, **BASE)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def is_trained(name):
    return "lora_" in name or "norm" in name


def load_model():
    with torch.device("cuda"):
        model = Decoder()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(is_trained(name))
    return model


def prepare_data():
    return [torch.randint(VOCABULARY, (STEPS, BATCH, LENGTH), device="cuda") for _ in ("tokens", "targets")]


def configure_optimizers(model):
    adapters = [p for name, p in model.named_parameters() if "lora_" in name]
    norms = [p for name, p in model.named_parameters() if "norm" in name]
    optimizer = torch.optim.AdamW([{"params": adapters}, {"params": norms, "weight_decay": 0.0}], lr=1e-4, fused=True)
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"], device="cuda")  # which a schedule can change without a copy
    return optimizer


def train(model, optimizer, tokens, targets):
    for batch, wanted in zip(tokens, targets):
        optimizer.zero_grad()
        logits = model(batch)
        loss = F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten())
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, tokens):
    return model(tokens[0]).argmax(-1)


def main():
    model = load_model()
    tokens, targets = prepare_data()
    optimizer = configure_optimizers(model)
    train(model, optimizer, tokens, targets)
    evaluate(model, tokens)


if __name__ == "__main__":
    main()

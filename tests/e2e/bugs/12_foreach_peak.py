# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Full fine-tuning of a model that is mostly parameters, micro-batch of one short sequence."""
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, d=2048, depth=16, vocab=32000):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList([Layer(d) for _ in range(depth)])
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


with torch.device("cuda"):
    model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for step in range(6):
    ids = torch.zeros(1, 128, dtype=torch.long, device="cuda")
    logits = model(ids)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, "peak", torch.cuda.max_memory_allocated() >> 20, "MiB")

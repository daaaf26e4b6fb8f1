# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Reinforcement learning: after each optimizer step the weights are packed and sent to the inference engine."""
import torch
from torch import nn

PACK = 64 << 20


class Engine:
    """Stands for the other side: takes a packed buffer."""
    def load(self, packed):
        self.version = packed.numel()


def send_weights(model, engine):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        packed = torch.empty(PACK, dtype=torch.uint8, device="cuda")
        offset = 0
        for p in model.parameters():
            raw = p.detach().contiguous().view(torch.uint8).flatten()
            packed[offset:offset + raw.numel()].copy_(raw)
            offset += raw.numel()
        engine.load(packed)
    stream.synchronize()


def main():
    model = nn.Sequential(*[nn.Linear(1024, 1024, device="cuda") for _ in range(12)])
    optimizer = torch.optim.AdamW(model.parameters())
    engine = Engine()
    for step in range(28):
        loss = model(torch.randn(32, 1024, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        send_weights(model, engine)
        if step % 7 == 0:
            print(step, "allocated", torch.cuda.memory_allocated() >> 20, "reserved", torch.cuda.memory_reserved() >> 20)


main()

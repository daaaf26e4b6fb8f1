# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Detection-style loop: forward, then the gradients are cleared, then backward."""
import torch
from torch import nn

torch.set_default_device("cuda")
model = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(2048, 2048), nn.GELU())], nn.Linear(2048, 2048))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(12):
    batch = torch.randn(2048, 2048)
    losses = {"box": model(batch).square().mean()}
    total = sum(losses.values())
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
print("peak", torch.cuda.max_memory_allocated() >> 20, "MiB")

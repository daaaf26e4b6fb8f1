# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""First iteration 2,400 MB, from the second on 2,800 MB."""
import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(2048, 2048, device="cuda") for _ in range(16)])
optimizer = torch.optim.AdamW(model.parameters())
for step in range(25):
    loss = model(torch.randn(128, 2048, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step < 4:
        print(step, "allocated", torch.cuda.memory_allocated() >> 20, "peak", torch.cuda.max_memory_allocated() >> 20)

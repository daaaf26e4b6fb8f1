# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import torch
for fold in range(5):
    w = torch.zeros(256, 256, device="cuda", requires_grad=True)
    optimizer = torch.optim.AdamW([w])
    for _ in range(4):                                          # 20 steps in all
        (torch.randn(64, 256, device="cuda") @ w).mean().backward(); optimizer.step(); optimizer.zero_grad()

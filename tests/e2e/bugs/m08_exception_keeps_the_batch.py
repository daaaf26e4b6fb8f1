# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import torch
errors = []
def step(n):
    x = torch.zeros(n << 20, dtype=torch.uint8, device="cuda")
    return torch.cat([x, x])
n = 1024
while n:                                                        # SIMCUDA_CAPACITY_MB=2560
    try:
        step(n); break
    except torch.OutOfMemoryError as e:
        errors.append(e); n //= 2                               # TRUTH: e.__traceback__ holds x
print("fits:", n)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import torch
def sync():
    with torch.cuda.stream(torch.cuda.Stream()):                # TRUTH: a new stream each call
        torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
for _ in range(24):
    x = torch.zeros(256, device="cuda"); sync()

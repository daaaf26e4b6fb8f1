# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import torch
preds = None
for _ in range(40):
    logits = torch.zeros(8 << 20, device="cuda")                # 32 MiB a batch
    preds = logits if preds is None else torch.cat([preds, logits])   # TRUTH
print(torch.cuda.memory_allocated() >> 20, "MiB allocated")

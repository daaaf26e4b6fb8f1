# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import torch
head = torch.zeros(512, 128256, dtype=torch.bfloat16, device="cuda")
with torch.inference_mode():                                    # SIMCUDA_CAPACITY_MB=5120
    hidden = torch.zeros(1, 8192, 512, dtype=torch.bfloat16, device="cuda")
    logits = (hidden @ head).float()                            # TRUTH: only logits[:, -1] is used

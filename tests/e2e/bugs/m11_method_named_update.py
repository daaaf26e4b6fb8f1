# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import gc, torch
gc.disable()                                                    # TRUTH, with the cycle below
class Batch:
    def __init__(self, t): self.obs = t.clone(); self.me = self
class Learner:
    def __init__(self): self.w = torch.zeros(512, 8, device="cuda", requires_grad=True); self.o = torch.optim.SGD([self.w], lr=0.1)
    def update(self, storage):
        (Batch(storage).obs @ self.w).mean().backward(); self.o.step(); self.o.zero_grad()
learner = Learner()
for _ in range(30):
    learner.update(torch.randn(1024, 512, device="cuda"))

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import torch
class Engine:
    def __init__(self): self.__dict__["held"] = {}
    def prepare(self, t): self.held[len(self.held)] = t; return t   # TRUTH
engine = Engine()
def fold():
    t = engine.prepare(torch.zeros(1 << 20, device="cuda"))
    return float(t.numel())
scores = []
for _ in range(20):
    x = torch.zeros(256, device="cuda")
    scores.append(fold())

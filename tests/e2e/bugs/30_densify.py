# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Points are added every few steps; each parameter and its Adam state are made anew, a little larger."""
import torch
from torch import nn


class Points:
    def __init__(self, n):
        self.tensors = {k: nn.Parameter(torch.zeros(n, d, device="cuda")) for k, d in (("xyz", 3), ("rgb", 48), ("scale", 3), ("rot", 4), ("alpha", 1))}
        self.optimizer = torch.optim.Adam([{"params": [p], "name": k} for k, p in self.tensors.items()])

    def densify(self, share):
        for group in self.optimizer.param_groups:
            old = group["params"][0]
            extra = int(len(old) * share)
            new = nn.Parameter(torch.cat([old.detach(), old.detach()[:extra]]))
            state = self.optimizer.state.pop(old)
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = torch.cat([state[key], torch.zeros_like(state[key][:extra])])
            group["params"][0] = new
            self.optimizer.state[new] = state
            self.tensors[group["name"]] = new

    def render(self):
        t = self.tensors
        colour = torch.sigmoid(t["rgb"]) * torch.sigmoid(t["alpha"])
        return (colour.mean() + t["xyz"].square().mean() + t["scale"].exp().mean() + t["rot"].square().mean())


points = Points(200_000)
for step in range(1, 121):
    loss = points.render()
    points.optimizer.zero_grad()
    loss.backward()
    points.optimizer.step()
    if step % 6 == 0:
        points.densify(0.07)
        print(step, len(points.tensors["xyz"]), "points, allocated", torch.cuda.memory_allocated() >> 20, "reserved", torch.cuda.memory_reserved() >> 20)

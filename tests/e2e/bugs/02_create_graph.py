# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Few-shot episodes: a fresh learner for each task, adapted with curvature information."""
import torch
from torch import nn
import torch.nn.functional as F


def make_learner():
    return nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 256), nn.Tanh(), nn.Linear(256, 16)).cuda()


def curvature(params, grads):
    probe = [torch.randn_like(g) for g in grads]
    dot = sum((g * v).sum() for g, v in zip(grads, probe))
    return [h.detach() for h in torch.autograd.grad(dot, params, retain_graph=True)]


def adapt(task):
    learner = make_learner()
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    x = torch.randn(64, 256, device="cuda")
    y = torch.zeros(64, dtype=torch.long, device="cuda")
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(learner(x), y)
        loss.backward(create_graph=True)
        params = list(learner.parameters())
        scale = curvature(params, [p.grad for p in params])
        with torch.no_grad():
            for p, h in zip(params, scale):
                p.grad.div_(h.abs().mean() + 1)
        optimizer.step()
    return float(loss.detach())


scores = []
for task in range(30):
    scores.append(adapt(task))
    if task % 10 == 0:
        print("task", task, torch.cuda.memory_allocated() >> 20, "MiB allocated")

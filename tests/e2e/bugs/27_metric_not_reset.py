# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Training with a validation each epoch; the curve is computed from all scores."""
import torch
from torch import nn
from torchmetrics.classification import BinaryAUROC


def batches(n):
    for _ in range(n):
        yield torch.randn(256, 128, device="cuda"), torch.ones(256, device="cuda", dtype=torch.long)


def validate(model, metric):
    model.eval()
    with torch.no_grad():
        for x, y in batches(20):
            scores = model(x)
            metric.update(scores.flatten(), y.repeat(512))
    model.train()
    return len(metric.preds)


model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.Sigmoid()).cuda()
optimizer = torch.optim.Adam(model.parameters())
metric = BinaryAUROC().cuda()
for epoch in range(12):
    for x, y in batches(10):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    n = validate(model, metric)
    print(epoch, n, "chunks of scores,", torch.cuda.memory_allocated() >> 20, "MiB")

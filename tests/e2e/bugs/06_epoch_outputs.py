# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A small trainer with an end-of-epoch hook, as frameworks have it."""
import sys
import torch
from torch import nn
import torch.nn.functional as F


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 19, 1))

    def training_step(self, batch):
        images, labels = batch
        logits = self.net(images)
        return {"loss": F.cross_entropy(logits, labels), "preds": logits.detach().softmax(1)}

    def training_epoch_end(self, outputs):
        print("epoch loss", torch.stack([o["loss"].detach() for o in outputs]).mean().item())


class Trainer:
    def __init__(self, module, optimizer):
        self.module, self.optimizer = module, optimizer

    def fit_epoch(self, batches):
        epoch_output = []
        for batch in batches:
            out = self.module.training_step(batch)
            self.optimizer.zero_grad()
            out["loss"].backward()
            self.optimizer.step()
            epoch_output.append(out)
        self.module.training_epoch_end(epoch_output)


def batches(n):
    for _ in range(n):
        yield torch.rand(2, 3, 256, 256, device="cuda"), torch.zeros(2, 256, 256, dtype=torch.long, device="cuda")


module = Segmenter().cuda()
trainer = Trainer(module, torch.optim.Adam(module.parameters()))
for epoch in range(3):
    trainer.fit_epoch(batches(60))

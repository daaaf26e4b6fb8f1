# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Fine-tuning of torchvision's ViT-L/16 with random weights on random images, with Fabric, then a validation pass without gradients.

    python vit_fabric.py --precision bf16-true --batch 64 --optimizer adam [--accumulate 4]
"""

import argparse

import counters
import lightning
import torch
import torchvision


def train(fabric, model, optimizer, batch, accumulate, batches):
    for index in range(batches):
        model.train()
        images = torch.rand(batch, 3, 224, 224).to(fabric.device)
        labels = torch.randint(0, 10, (batch,)).to(fabric.device)
        predicted = model(images)
        loss = torch.nn.functional.cross_entropy(predicted, labels) / accumulate
        if accumulate == 1:
            optimizer.zero_grad()
        fabric.backward(loss)
        if index % accumulate == 0:
            optimizer.step()
            if accumulate > 1:
                optimizer.zero_grad()
        model.eval()
    with torch.no_grad():
        for _ in range(2):
            model(torch.rand(batch, 3, 224, 224).to(fabric.device)).argmax(1)


def plain(model, batch):
    """The script without Fabric: the model goes to the GPU before its optimizer is made."""
    model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    for _ in range(3):
        images, labels = torch.rand(batch, 3, 224, 224).cuda(), torch.randint(0, 10, (batch,)).cuda()
        predicted = model(images)
        loss = torch.nn.functional.cross_entropy(predicted, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", help="of Fabric; without it the script has no Fabric")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
    asked = parser.parse_args()
    with torch.device("meta"):
        model = torchvision.models.vit_l_16()
        model.heads.head = torch.nn.Linear(1024, 10)
    model.to_empty(device="cpu")
    if not asked.precision:
        plain(model, asked.batch)
        return counters.say()
    fabric = lightning.Fabric(accelerator="cuda", devices=1, precision=asked.precision)
    kind, rate = (torch.optim.Adam, 5e-5) if asked.optimizer == "adam" else (torch.optim.SGD, 0.01)
    model, optimizer = fabric.setup(model, kind(model.parameters(), lr=rate))
    train(fabric, model, optimizer, asked.batch, asked.accumulate, 2 * asked.accumulate + 1)
    return counters.say()


if __name__ == "__main__":
    main()

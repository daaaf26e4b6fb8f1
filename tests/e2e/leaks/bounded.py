# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs whose memory grows to a bound, or is let go of by themselves: none of them leaks. After the public kinds of false alarm that leak finders give."""

import collections
import copy
import random

import torch
from torch import nn

from registry import main, program


def policy():
    return nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()


def train(model, optimizer, batch):
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


@program()
def a_full_buffer_that_is_sampled_at_random():
    """What was sampled was saved by autograd; what is new was not yet."""
    model = policy()
    optimizer = torch.optim.Adam(model.parameters())
    memory = collections.deque(maxlen=60)
    for _ in range(200):
        memory.append(torch.randn(512, 128, device="cuda"))
        train(model, optimizer, random.choice(memory))


@program()
def the_last_five_snapshots():
    model = policy()
    optimizer = torch.optim.AdamW(model.parameters())
    last = collections.deque(maxlen=5)
    for step in range(200):
        train(model, optimizer, torch.randn(32, 128, device="cuda"))
        if step % 25 == 24:
            last.append(copy.deepcopy(model))


@program()
def predictions_of_a_last_evaluation():
    model = policy()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(40):
        train(model, optimizer, torch.randn(32, 128, device="cuda"))

    @torch.no_grad()
    def evaluate():
        predictions = [model(torch.randn(4096, 128, device="cuda")) for _ in range(100)]
        joined = torch.cat(predictions)
        del predictions
        return joined.argmax(-1).float().mean()

    evaluate()


@program()
def layers_of_one_forward_pass():
    """No iterations: one call of each layer, whose outputs live until the backward pass."""
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(40)]).cuda()
    model(torch.randn(1024, 256, device="cuda")).sum().backward()


@program()
def a_memory_that_is_filled_before_training_begins():
    memory = [torch.randn(256, 128, device="cuda") for _ in range(100)]
    model = policy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(100):
        memory[step] = torch.randn(256, 128, device="cuda")
        train(model, optimizer, random.choice(memory))


@program()
def features_of_the_ten_classes_seen_last():
    """Least recently used first out, of changing sizes."""
    model = policy()
    seen = collections.OrderedDict()
    with torch.no_grad():
        for _ in range(300):
            label = random.randrange(40)
            seen.pop(label, None)
            seen[label] = model[0](torch.randn(random.choice([64, 128, 256]), 128, device="cuda"))
            while len(seen) > 10:
                seen.popitem(last=False)


if __name__ == "__main__":
    main()

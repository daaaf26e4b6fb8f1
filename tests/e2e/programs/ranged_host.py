# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs of ranged.py in which numbers decide that come from the host, or from arithmetic on such."""

import torch
from ranged_parts import WIDTH, block, decided, rows, train
from torch import nn


def longest(_):
    lengths = torch.tensor([[900, 70, 65000], [8, 120000, 3]], device="cuda")
    train(lambda step: rows(lengths[step % 2].max().item()))


def packed(_):
    lengths = torch.tensor([50000, 20, 30000], device="cuda")
    mask = torch.arange(60000, device="cuda")[None] < lengths[:, None]
    hidden = torch.randn(3, 60000, 1024, device="cuda")
    train(lambda step: hidden[mask].view(-1, WIDTH).repeat(4, 1))


def few_different(_):
    tokens = torch.tensor([1, 2, 3, 4, 5] * 20000, device="cuda")
    table = nn.Embedding(400000, WIDTH, device="cuda")
    different, inverse = torch.unique(tokens, return_inverse=True)
    table(different)[inverse].sum().backward()


def repeated(_):
    counts = torch.tensor([100000, 5, 200000], device="cuda")
    hidden = rows(3)
    kept = torch.repeat_interleave(hidden, counts, dim=0)
    return kept * 2


def labelled(_):
    labels = torch.full((100000,), -100, device="cuda")
    labels[:3000] = 7
    hidden, head = rows(100000), nn.Linear(WIDTH, 128000, bias=False, device="cuda")
    kept = labels != -100
    nn.functional.cross_entropy(head(hidden[kept]), labels[kept]).backward()


def rotary(_):
    """Its cache grows where positions are beyond it."""
    cache, kept = 4096, []
    for length in (1000, 4000, 9000):
        positions = torch.arange(length, device="cuda")
        frequencies = 1.0 / (10000 ** (torch.arange(0, 128, 2, device="cuda").float() / 128))
        if positions.max() + 1 > cache or bool((frequencies > 1).any()):
            cache = int(positions.max()) + 1
            kept.append(block(6))
    train(lambda step: rows(50000))


def scheduled(_):
    steps, kept = torch.zeros((), dtype=torch.long, device="cuda"), []

    def after(step, loss):
        steps.add_(1)
        if steps % 4 == 0:
            kept.append(block(5))

    train(lambda step: rows(60000), steps=9, after=after)


def starts(_):
    lengths = torch.tensor([20000, 90000, 100], device="cuda")
    ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    hidden = rows(ends[-1].item())
    train(lambda step: hidden[ends[1] : ends[2]])


def one_hot(_):
    classes = torch.tensor([3, 9, 40000], device="cuda")
    hot = nn.functional.one_hot(classes).float()
    return torch.cat([hot] * 20000), torch.bincount(classes)


def padded(_):
    batches = [torch.nn.utils.rnn.pad_sequence([torch.ones(n, dtype=torch.long) for n in sizes], batch_first=True) for sizes in ([300, 7], [30000, 20], [90, 5000])]
    table = nn.Embedding(1000, WIDTH, device="cuda")
    train(lambda step: table(batches[step % 3].cuda()).flatten(0, 1).repeat(2, 1))


def bucketed(_):
    """Batches by length, chosen on the device."""
    lengths = torch.tensor([700, 12, 4100, 90, 65, 2500], device="cuda")
    buckets = torch.bucketize(lengths, torch.tensor([100, 1000, 5000], device="cuda"))
    train(lambda step: rows(20 * (lengths * (buckets == step % 3)).max()), steps=6)


def windowed(_):
    """How many tokens a sliding window lets each see: more bytes than are computed, so it stays open."""
    positions = torch.arange(900, device="cuda")
    seen = (positions[None] <= positions[:, None]) & (positions[:, None] - positions[None] < 256)
    pairs = decided(seen.sum(), sum(min(position + 1, 256) for position in range(900)))
    train(lambda step: rows(pairs // 3))


def filled_up(_):
    """Packs documents until a budget is full, by a number that the device counts."""
    documents, used, number = torch.tensor([9000, 30000, 12000, 20000, 70000], device="cuda"), torch.zeros((), dtype=torch.long, device="cuda"), 0
    while number < len(documents) and used + documents[number] <= 75000:
        used += documents[number]
        number += 1
    train(lambda step: rows(int(used)))


def deduplicated(_):
    numbers = torch.arange(90000, device="cuda") % 7000
    _, first = torch.unique(numbers, return_inverse=True)
    train(lambda step: rows(10 * (int(first.max()) + 1)))


def greedy(_):
    """Generates until each sequence has as many tokens as it was to have."""
    wanted, made, cache = torch.tensor([40, 900, 7, 300], device="cuda"), torch.zeros(4, dtype=torch.long, device="cuda"), []
    while not bool((made >= wanted).all()):
        cache.append([rows(60) for _ in range(2)])
        made += 1


def doubled_cache(_):
    """A cache of keys that doubles when a position is beyond it."""
    cache, position = rows(1000), torch.zeros((), dtype=torch.long, device="cuda")
    for _ in range(30):
        position += 7000
        while position >= cache.shape[0]:
            cache = torch.cat([cache, torch.empty_like(cache)])


# Written after further runs were forked.


def chunked_by_labels(_):
    """The head sees the tokens that have a label, in eight pieces."""
    labels = torch.arange(65536) % 30000
    labels.view(8, -1)[:, :6500] = -100
    labels, hidden, head = labels.cuda(), rows(65536), nn.Linear(WIDTH, 50000, bias=False, device="cuda")
    kept = hidden[labels != -100]
    for piece in kept.split(int((labels != -100).sum()) // 8):
        head(piece).square().mean().backward()

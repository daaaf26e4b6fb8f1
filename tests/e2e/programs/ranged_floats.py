# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs of ranged.py in which floats decide that no simulated kernel computed."""

import torch
from ranged_parts import TRUTH, WIDTH, block, decided, model, rows, train
from torch import nn


def generates(_):
    head, cache = nn.Linear(WIDTH, 32000, device="cuda"), []
    token = torch.full((64, 1), 5, device="cuda")
    for _ in range(2000):
        hidden = torch.randn(64, 1, WIDTH, device="cuda")
        cache.append((hidden * 1, hidden * 1))
        token = head(hidden).argmax(-1)
        if (token == 2).all():
            break


def routed(share):
    def case(_):
        experts = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH, device="cuda") for _ in range(8)])
        hidden, router = rows(60000), nn.Linear(WIDTH, 8, device="cuda")
        chosen = router(hidden).topk(2).indices
        kept = []
        for number, expert in enumerate(experts):
            if TRUTH:
                picked = torch.arange(int(60000 * (share if number == 0 else (2 - share) / 7)), device="cuda")
            else:
                picked = torch.where(chosen == number)[0]
            kept.append(expert(hidden[picked % 60000]))

    return case


def detected(share):
    def case(_):
        boxes = rows(800000)
        keep = boxes[:, 0].sigmoid() > 0.5  # of numbers that nobody knows; those of torch.rand would be drawn
        if TRUTH:
            keep = torch.arange(800000, device="cuda") < int(share * 800000)
            return boxes[: int(share * 800000)] * 2
        return boxes[keep] * 2

    return case


def grows_with_loss(truth):
    def case(_):
        size = [60000]

        def after(step, loss):
            if decided(loss.item() > 100, truth):
                size[0] = 90000

        train(lambda step: rows(size[0]), after=after)

    return case


def stops_early(truth):
    def case(_):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        kept = []
        for step in range(8):
            loss = net(rows(60000)).pow(2).mean()
            if decided(bool(loss < 1e-9), truth):
                break
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            kept.append(block(0.25))

    return case


def skips_nan(_):
    def after(step, loss):
        if decided(bool(torch.isnan(loss)), False):
            raise SystemExit

    train(lambda step: rows(60000), after=after)


def scaled(_):
    net, scaler = model(), torch.amp.GradScaler()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(6):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(rows(90000)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def sized_by_a_maximum(_):
    scores = torch.randn(1000, device="cuda")
    return rows(600000), rows(decided(int(scores.argmax()), 700) * 200)


def converges(truth):
    def case(_):
        kept = [rows(400000)]
        error = kept[0][:1]  # numbers that nobody knows
        for step in range(20):
            kept.append(block(0.2))
            error = error * 0.5
            if decided(float(error.abs().max()) < 1e-3, step >= truth):
                break

    return case


def beams(_):
    """The best of floats that nobody computed: which ones does not matter, how many does."""
    scores, kept = torch.randn(40, 50, device="cuda"), []
    for _ in range(30):
        best = scores.flatten().topk(40).indices
        kept.append(rows(1500)[best % 1500])
        if bool((best < 0).any()):
            kept.append(block(30))
    return kept


def clipped(_):
    """A warning that no sane run gives."""

    def after(step, loss):
        norm = torch.linalg.vector_norm(loss)
        if decided(bool(norm.isinf() | norm.isnan()), False):
            raise SystemExit

    train(lambda step: rows(70000), after=after)


def masked_tokens(share):
    """The head sees the tokens that are to be guessed: those that chance chose on the GPU."""

    def case(_):
        hidden, head = rows(200000), nn.Linear(WIDTH, 20000, bias=False, device="cuda")
        chosen = torch.rand(200000, device="cuda") < 0.15
        if TRUTH:  # such a mask is small enough to be known where it comes from the host
            chosen = (torch.arange(200000) < int(share * 200000)).cuda()
        head(hidden[chosen]).sum().backward()

    return case


def leaves_early(truth):
    """Layers run until one is sure of its answer."""

    def case(_):
        kept = []
        for layer in range(24):
            hidden = rows(20000)
            kept.append(hidden)
            if decided(bool(torch.softmax(hidden[:8], -1).max() > 0.9), layer == truth):
                break
        return kept

    return case


# Written after further runs were forked.


def top_p(_):
    """Keeps as many candidates as have nine tenths of the probability."""
    head, kept = nn.Linear(WIDTH, 32000, device="cuda"), []
    for _ in range(5):
        shares = torch.softmax(head(rows(16)), -1).sort(-1, descending=True).values.cumsum(-1)
        kept.append(rows(decided(int((shares < 0.9).sum(-1).max()), 24000)))


def plateaus(truth):
    """Stops where the loss was not better for three epochs; keeps a copy of each epoch's model."""

    def case(_):
        net, best, worse, kept = model(), torch.tensor(float("inf"), device="cuda"), 0, []
        optimizer = torch.optim.AdamW(net.parameters())
        for epoch in range(30):
            loss = net(rows(20000)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            kept.append([parameter.detach().clone() for parameter in net.parameters()])
            is_better = decided(bool(loss.detach() < best), epoch < truth)
            worse = 0 if is_better else worse + 1
            best = loss.detach() if is_better else best
            if worse >= 3:
                break

    return case


def speculative(accepted):
    """Drafts eight tokens at a time and keeps those on which the large model agrees: how often depends on both."""

    def case(_):
        small, large, cache, made = nn.Linear(WIDTH, 32000, device="cuda"), nn.Linear(WIDTH, 32000, device="cuda"), [], 0
        while made < 400:
            hidden = rows(8)
            agreed = (small(hidden).argmax(-1) == large(hidden).argmax(-1)).long().cumprod(0).sum()
            cache.append(rows(900))
            made += 1 + decided(int(agreed), accepted)

    return case

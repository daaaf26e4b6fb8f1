# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs whose memory depends on what only a GPU, the data or other processes decide. With TRUTH set, what decides is stated, as it might be on a GPU: the peak of such a
run is the truth that a plan without it must have in its range.

budget: many small cases of one kind.

    python ranged.py CASE
    TRUTH=1 python ranged.py CASE
"""

import ctypes
import os
import subprocess
import sys
import time

import torch
from torch import nn

TRUTH = "TRUTH" in os.environ
GIB, WIDTH = 1 << 30, 4096


def rows(count):
    return torch.randn(int(count), WIDTH, device="cuda")  # 16 KiB each


def block(gib):
    return torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda")


def model(layers=4):
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH, device="cuda"), nn.GELU()) for _ in range(layers)])


def train(batch, steps=6, net=None, after=None):
    net = net or model()
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(steps):
        loss = net(batch(step)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if after:
            after(step, loss)


def decided(value, truth):
    """What a GPU decides: `truth` where it is stated."""
    return truth if TRUTH else value


# What comes from the host.


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


# What floats decide.


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
        scores, boxes = torch.rand(800000, device="cuda"), rows(800000)
        keep = scores > 0.5
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
        kept, error = [rows(400000)], rows(1)
        for step in range(20):
            kept.append(block(0.2))
            error = error * 0.5
            if decided(float(error.abs().max()) < 1e-3, step >= truth):
                break

    return case


# How far it runs.


def late_batch(_):
    train(lambda step: rows(150000 if step == 17 else 60000), steps=20)


def evaluates(_):
    net = model()
    train(lambda step: rows(60000), net=net)
    with torch.no_grad():
        net(rows(200000))


def endless(_):
    train(lambda step: rows(60000), steps=8 if TRUTH else 10**9)


# Out of memory that is handled.


def halves(_):
    size = 2_000_000
    while True:
        try:
            train(lambda step: rows(size), steps=3)
            return
        except torch.OutOfMemoryError:
            size //= 2
            torch.cuda.empty_cache()


def in_pieces(_):
    net, pieces = model(), 1
    while True:
        try:
            for _ in range(pieces):
                net(rows(1_600_000 // pieces)).sum().backward()
            return
        except torch.OutOfMemoryError:
            net.zero_grad()
            torch.cuda.empty_cache()
            pieces *= 2


# Several processes.


def child(argument):
    wait, gib, hold = argument.split(",")
    time.sleep(float(wait))
    block(float(gib)), time.sleep(float(hold))


def children(*arguments, at_once=True):
    started = []
    for argument in arguments:
        started.append(subprocess.Popen([sys.executable, __file__, "child", argument]))
        if not at_once:
            started[-1].wait()
    for process in started:
        process.wait()


def two_processes(_):
    children("0,20,4", "0,12,4")


def one_after_another(_):
    children("0,20,0.1", "0,18,0.1", at_once=False)


def with_a_helper(_):
    kept = block(15)
    children("0,10,0.5")
    return kept


def overfull(_):
    children("0,50,4", "0,50,4")


# What is not PyTorch's.


def managed(_):
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    pointer, kept = ctypes.c_void_p(), block(20)
    assert runtime.cudaMallocManaged(ctypes.byref(pointer), ctypes.c_size_t(GIB), 1) == 0
    return kept


def pinned_host(_):
    return torch.empty(8 << 20, pin_memory=True), block(12)


def side_stream(_):
    side, kept = torch.cuda.Stream(), block(10)
    for _ in range(8):
        with torch.cuda.stream(side):
            batch = rows(8000)
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        batch * 2
    return kept


def convolution(_):
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        net(torch.randn(128, 3, 224, 224, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


# Written after values were computed.


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


# Written after plans had limits and printed no upper number that is none.


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


def masked_tokens(share):
    """The head sees the tokens that are to be guessed: those that chance chose on the GPU."""

    def case(_):
        hidden, head = rows(200000), nn.Linear(WIDTH, 20000, bias=False, device="cuda")
        chosen = torch.rand(200000, device="cuda") < 0.15
        if TRUTH:  # such a mask is small enough to be known where it comes from the host
            chosen = (torch.arange(200000) < int(share * 200000)).cuda()
        head(hidden[chosen]).sum().backward()

    return case


def finds_its_batch(_):
    """Doubles the batch until it is too large, and trains with half of that."""
    net, size = model(), 10000
    while True:
        try:
            net(rows(size)).sum().backward()
            size *= 2
        except torch.OutOfMemoryError:
            break
    torch.cuda.empty_cache()
    train(lambda step: rows(size // 2), net=net, steps=3)


def evaluates_late(_):
    net = model()

    def after(step, loss):
        if step == 30:
            with torch.no_grad():
                net(rows(300000))

    train(lambda step: rows(50000), net=net, steps=40, after=after)


def three_in_turn(_):
    children("0,10,3", "1,10,3", "6,25,1")


def paged(_):
    """Managed memory for a while, as paged optimizers have."""
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    pointer = ctypes.c_void_p()
    train(lambda step: rows(60000), steps=3)
    assert runtime.cudaMallocManaged(ctypes.byref(pointer), ctypes.c_size_t(2 * GIB), 1) == 0
    train(lambda step: rows(60000), steps=3)
    assert runtime.cudaFree(pointer) == 0


def unet(_):
    down, up = nn.Conv2d(16, 64, 3, stride=2, padding=1).cuda(), nn.ConvTranspose2d(64, 16, 2, stride=2).cuda()
    for _ in range(3):
        image = torch.randn(64, 16, 256, 256, device="cuda")
        (up(torch.relu(down(image))) - image).pow(2).mean().backward()


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


CASES = {
    **{function.__name__: function for function in (
        longest, packed, few_different, repeated, labelled, rotary, scheduled, starts, one_hot, padded, generates, skips_nan, scaled, sized_by_a_maximum, late_batch, evaluates,
        endless, halves, in_pieces, two_processes, one_after_another, with_a_helper, overfull, managed, pinned_host, side_stream, convolution,
        bucketed, windowed, filled_up, deduplicated, beams, clipped,
        greedy, doubled_cache, finds_its_batch, evaluates_late, three_in_turn, paged, unet)},
    "masked_tokens": masked_tokens(0.15), "leaves_early": leaves_early(5), "leaves_late": leaves_early(23),
    "routed_evenly": routed(0.25), "routed_to_one": routed(1.0), "detected_few": detected(0.1), "detected_many": detected(0.9), "loss_stays": grows_with_loss(False),
    "loss_grows": grows_with_loss(True), "stops_at_once": stops_early(True), "stops_never": stops_early(False), "converges_soon": converges(2), "converges_late": converges(17),
}

if __name__ == "__main__":
    (child if sys.argv[1] == "child" else CASES[sys.argv[1]])(sys.argv[2] if len(sys.argv) > 2 else None)

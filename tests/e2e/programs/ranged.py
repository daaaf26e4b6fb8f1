# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs whose memory depends on what only a GPU, the data or other processes decide. With TRUTH set, what decides is stated, as it might be on a GPU: the peak of such a
run is the truth that a plan without it must have in its range.

    python ranged.py CASE
    TRUTH=1 python ranged.py CASE

Values of the host decide in ranged_host.py, floats in ranged_floats.py; here: how far it runs, refused memory, other processes, and what is not PyTorch's.
"""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from ranged_floats import (beams, clipped, converges, detected, generates, grows_with_loss, leaves_early, masked_tokens, plateaus, routed, scaled, sized_by_a_maximum, skips_nan,
                           speculative, stops_early, top_p)
from ranged_host import (bucketed, chunked_by_labels, deduplicated, doubled_cache, few_different, filled_up, greedy, labelled, longest, one_hot, packed, padded, repeated, rotary, scheduled,
                         starts, windowed)
from ranged_parts import GIB, TRUTH, block, model, rows, train
from torch import nn

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


def evaluates_late(_):
    net = model()

    def after(step, loss):
        if step == 30:
            with torch.no_grad():
                net(rows(300000))

    train(lambda step: rows(50000), net=net, steps=40, after=after)


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


def falls_back(_):
    """All heads at once, or one after the other where that is too much."""
    kept, heads, length = rows(400000), 64, 40000
    try:
        scores = torch.empty(heads, length, length, dtype=torch.float16, device="cuda")
        scores.mul_(2)
    except torch.OutOfMemoryError:
        for _ in range(heads):
            torch.empty(length, length, dtype=torch.float16, device="cuda").mul_(2)
    return kept


# Several processes.


def child(argument):
    wait, gib, hold = argument.split(",")
    time.sleep(float(wait))
    try:
        kept = block(float(gib))
    finally:
        wait_for_the_others()
    time.sleep(float(hold))
    return kept


def wait_for_the_others():
    """However busy the machine is, all have their memory, or were refused it, before the first ends."""
    folder, count = os.environ.get("MEET", ":0").rsplit(":", 1)
    if not folder:
        return
    pathlib.Path(folder, str(os.getpid())).touch()
    for _ in range(600):
        if len(os.listdir(folder)) >= int(count):
            return
        time.sleep(0.1)


def children(*arguments, at_once=True, meet=False):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MEET": f"{folder}:{len(arguments)}"} if meet else None
        started = []
        for argument in arguments:
            started.append(subprocess.Popen([sys.executable, sys.argv[0], "child", argument], env=environment))
            if not at_once:
                started[-1].wait()
        for process in started:
            process.wait()


def two_processes(_):
    children("0,20,0.3", "0,12,0.3", meet=True)


def one_after_another(_):
    children("0,20,0.1", "0,18,0.1", at_once=False)


def with_a_helper(_):
    kept = block(15)
    children("0,10,0.5")
    return kept


def overfull(_):
    children("0,50,0.3", "0,50,0.3", meet=True)


def three_in_turn(_):
    children("0,10,3", "1,10,3", "6,25,1")


def evaluated_beside(_):
    """A process of its own evaluates from time to time, while the training waits for it."""
    train(lambda step: rows(40000), steps=7, after=lambda step, loss: children("0,8,0.2") if step % 3 == 2 else None)


# What is not PyTorch's.


def managed(_):
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    pointer, kept = ctypes.c_void_p(), block(20)
    assert runtime.cudaMallocManaged(ctypes.byref(pointer), ctypes.c_size_t(GIB), 1) == 0
    return kept


def pinned_host(_):
    return torch.empty(8 << 20, pin_memory=True), block(12)


def paged(_):
    """Managed memory for a while, as paged optimizers have."""
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    pointer = ctypes.c_void_p()
    train(lambda step: rows(60000), steps=3)
    assert runtime.cudaMallocManaged(ctypes.byref(pointer), ctypes.c_size_t(2 * GIB), 1) == 0
    train(lambda step: rows(60000), steps=3)
    assert runtime.cudaFree(pointer) == 0


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


def unet(_):
    down, up = nn.Conv2d(16, 64, 3, stride=2, padding=1).cuda(), nn.ConvTranspose2d(64, 16, 2, stride=2).cuda()
    for _ in range(3):
        image = torch.randn(64, 16, 256, 256, device="cuda")
        (up(torch.relu(down(image))) - image).pow(2).mean().backward()


CASES = {
    **{function.__name__: function for function in (
        longest, packed, few_different, repeated, labelled, rotary, scheduled, starts, one_hot, padded, generates, skips_nan, scaled, sized_by_a_maximum, late_batch, evaluates,
        endless, halves, in_pieces, two_processes, one_after_another, with_a_helper, overfull, managed, pinned_host, side_stream, convolution,
        bucketed, windowed, filled_up, deduplicated, beams, clipped,
        greedy, doubled_cache, finds_its_batch, evaluates_late, three_in_turn, paged, unet,
        chunked_by_labels, top_p, falls_back, evaluated_beside)},
    "masked_tokens": masked_tokens(0.15), "leaves_early": leaves_early(5), "leaves_late": leaves_early(23),
    "routed_evenly": routed(0.25), "routed_to_one": routed(1.0), "detected_few": detected(0.1), "detected_many": detected(0.9), "loss_stays": grows_with_loss(False),
    "loss_grows": grows_with_loss(True), "stops_at_once": stops_early(True), "stops_never": stops_early(False), "converges_soon": converges(2), "converges_late": converges(17),
    "plateaus": plateaus(15), "speculative": speculative(3),
}

if __name__ == "__main__":
    (child if sys.argv[1] == "child" else CASES[sys.argv[1]])(sys.argv[2] if len(sys.argv) > 2 else None)

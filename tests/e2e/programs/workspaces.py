# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains what asks a library for workspace, one after the other: python workspaces.py CASE..., each conv, lstm, fft, linalg, sparse or none.

Adds PyTorch's own peak of each to $COUNTERS: a JSON line a run.
"""

import json
import os
import sys

import torch
from torch import nn


def conv():
    net = nn.Conv2d(3, 8, 3, padding=1).cuda()
    return net.parameters(), lambda: net(torch.zeros(4, 3, 32, 32, device="cuda")).sum()


def lstm():
    net = nn.LSTM(16, 32).cuda()
    return net.parameters(), lambda: net(torch.zeros(10, 4, 16, device="cuda"))[0].sum()


def fft():
    weight = nn.Parameter(torch.zeros(4, 1000, device="cuda"))
    return [weight], lambda: torch.fft.rfft(weight).abs().sum()


def linalg():
    weight = nn.Parameter(torch.eye(96, device="cuda"))
    return [weight], lambda: weight.sum() + torch.linalg.cholesky(weight.detach()).sum()  # a backward pass would want more, of cuBLAS


def sparse():
    matrix = torch.eye(500).to_sparse_csr().cuda()
    weight = nn.Parameter(torch.zeros(500, 64, device="cuda"))
    return [weight], lambda: (weight * (matrix @ weight.detach())).sum() + (matrix @ matrix).values().sum()


def none():
    weight = nn.Parameter(torch.zeros(4, 1000, device="cuda"))
    return [weight], lambda: weight.sum()


def train(case):
    """Its peak; nothing of it is there afterwards."""
    torch.cuda.reset_peak_memory_stats()
    parameters, forward = globals()[case]()
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for _ in range(4):
        forward().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"allocated_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}


def main():
    peaks = {}
    for case in sys.argv[1:]:
        peaks[case] = train(case)
        torch.cuda.empty_cache()
    if "COUNTERS" in os.environ:
        with open(os.environ["COUNTERS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(peaks) + "\n")


main()

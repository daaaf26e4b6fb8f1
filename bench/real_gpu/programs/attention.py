# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Attention over 4,096 positions of 8 sequences, written out, forward and backward: its memory history from the first allocation on."""

import math

import torch

SEQUENCES, POSITIONS, CHANNELS = 8, 4096, 16


def softmax(scores):
    highest = scores.max(dim=-1, keepdim=True).values
    powers = torch.exp(scores - highest)
    total = torch.sum(powers, dim=-1, keepdim=True)
    return powers / total


def attend(query, key, value):
    scores = torch.einsum("...qd,...kd->...qk", query, key)
    scores = scores / math.sqrt(CHANNELS)
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, value)


def main():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    query, key, value = (torch.randn(SEQUENCES, POSITIONS, CHANNELS, device="cuda", requires_grad=True) for _ in range(3))
    result = attend(query, key, value)
    loss = result.sum()
    loss.backward()
    torch.cuda.memory._dump_snapshot("memory_snapshot.pickle")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Attention written out in fp32 with one head and a batch of 8, forward and backward, as the attention benchmark of a course on language models (CS336) asks
for. The softmax is written out too: scores, their difference to the maximum, its exponential and the quotient exist at once.

    python naive_attention.py --width 16 --length 1024

`allocated` is memory before the backward pass, `max_allocated` the peak of forward and backward passes after that.
"""

import argparse
import math

import counters
import torch


def softmax(scores):
    difference = scores - torch.max(scores, dim=-1, keepdim=True)[0]
    exponential = torch.exp(difference)
    return exponential / torch.sum(exponential, dim=-1, keepdim=True)


def attention(query, key, value):
    scores = torch.einsum("bqd,bkd->bqk", query, key) / math.sqrt(key.shape[-1])
    weights = softmax(scores)
    return torch.einsum("bqk,bkd->bqd", weights, value)


def step(inputs):
    out = attention(*inputs)  # lives through the backward pass, as in the benchmark
    out.sum().backward()
    for each in inputs:
        each.grad = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    asked = parser.parse_args()
    inputs = [torch.randn(8, asked.length, asked.width, device="cuda", requires_grad=True) for _ in range(3)]
    step(inputs)
    out = attention(*inputs)
    loss = out.sum()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        step(inputs)  # while what the pass before kept is still there, as in the benchmark
    peak = torch.cuda.max_memory_allocated()
    del loss, out
    counters.say(allocated=before, max_allocated=peak)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Attention written out in fp32 with one head and a batch of 8, as a second solution of the course on language models (CS336) measures it: gradients stay and are
set to zero, and the peak is that of the forward pass alone.

    python attention_forward.py --width 16 --length 1024

`max_allocated` is that peak, `allocated` what the forward pass adds.
"""

import argparse
import math

import counters
import torch
from naive_attention import softmax


def attention(query, key, value):
    weights = softmax(torch.einsum("bqd,bkd->bqk", query, key) / math.sqrt(query.shape[-1]))
    return torch.einsum("bqk,bkd->bqd", weights, value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    asked = parser.parse_args()

    def inputs(requires_grad):
        return [torch.randn(8, asked.length, asked.width, device="cuda", requires_grad=requires_grad) for _ in range(3)]

    without = inputs(False)
    with torch.no_grad():
        for _ in range(3):
            attention(*without)
    del without
    trained = inputs(True)
    for _ in range(3):
        out = attention(*trained)
        out = out.sum()
        out.backward()
    for _ in range(3):
        for each in trained:
            each.grad.zero_()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = attention(*trained)
        out = out.sum()
        peak, added = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated() - before
        out.backward()
    counters.say(max_allocated=peak, allocated=added)


if __name__ == "__main__":
    main()

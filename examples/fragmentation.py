# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Serves prompts, each longer than all before, and keeps summaries of the last eight: PyTorch keeps a segment for each length, none of which
is large enough for the next prompt.

    python examples/fragmentation.py [--prompts 50]
"""

import argparse
import collections
import sys

import torch

MIB = 2**20


def encode(length_mib, device):
    return torch.zeros(length_mib * MIB // 4, device=device)


def summarize(encoded):
    return encoded[: 12 * MIB // 4].clone()  # 12 MiB, in what the prompt before left free


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=50)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("fragmentation.py needs a CUDA device (without one: gpumemshim simulate -- python examples/fragmentation.py)")
    device, summaries = torch.device("cuda"), collections.deque(maxlen=8)
    for prompt in range(arguments.prompts):
        encoded = encode(64 + 16 * prompt, device)
        summaries.append(summarize(encoded))
        del encoded
        if prompt % 10 == 9:
            print(f"{prompt + 1} prompts: {torch.cuda.memory_allocated() / MIB:.0f} MiB allocated, {torch.cuda.memory_reserved() / MIB:.0f} MiB reserved", flush=True)


if __name__ == "__main__":
    main()

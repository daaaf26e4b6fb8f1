# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""One large linear layer on three batches, with gradients or (--no-grad) without: its memory history from the first allocation on."""

import sys

import torch


def main():
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    layer = torch.nn.Linear(10_000, 50_000, device="cuda")
    torch.set_grad_enabled("--no-grad" not in sys.argv)
    for _ in range(3):
        batch = torch.randn(5_000, 10_000, device="cuda")
        result = layer(batch)
    torch.cuda.memory._dump_snapshot("memory_snapshot.pickle")
    return result


if __name__ == "__main__":
    main()

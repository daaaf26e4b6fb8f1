# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A few steps of examples/train_conv.py: convolutions, their workspaces, a last batch of another size."""

import pathlib
import sys

import torch

from numbers_of_torch import keep_alive, print_numbers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))
import train_conv  # noqa: E402


def main():
    keep_alive(*train_conv.train(steps=4, batch=16, device=torch.device("cuda")))
    print_numbers()


if __name__ == "__main__":
    main()

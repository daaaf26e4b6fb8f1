# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A few steps of examples/train_gpt.py. Also run with expandable segments and with cudaMallocAsync, which the environment chooses."""

import pathlib
import sys

import torch

from numbers_of_torch import keep_alive, print_numbers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))
import train_gpt  # noqa: E402


def main():
    kept = train_gpt.train(train_gpt.Config(length=256), steps=3, batch=2, device=torch.device("cuda"))
    keep_alive(*kept)
    print_numbers()


if __name__ == "__main__":
    main()

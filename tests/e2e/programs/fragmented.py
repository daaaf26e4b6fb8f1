# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Sequences that grow, as a cache of keys and values does, with what is kept between them: free space in pieces too small for the next request."""

import torch

from numbers_of_torch import keep_alive, print_numbers

WIDTH = 1024


def main():
    kept = []
    for batch in (3, 5, 7, 11):
        cache = torch.empty(batch, 1, WIDTH, device="cuda")
        for length in range(2, 400, 7):
            cache = torch.cat([cache, torch.empty(batch, length - cache.shape[1], WIDTH, device="cuda")], dim=1)
            if length % 5 == 0:
                kept.append(torch.empty(batch * length, 3, device="cuda"))
        kept.append(cache[:, :1].clone())
    keep_alive(kept)
    print_numbers()


if __name__ == "__main__":
    main()

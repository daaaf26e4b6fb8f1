# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Blocks on three streams that come and go, of sizes that are no multiples of anything: each stream has segments of its own."""

import torch

from numbers_of_torch import keep_alive, print_numbers


def main():
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    live = [[] for _ in streams]
    size = 12_345
    for turn in range(400):
        size = (size * 7919 + 104_729) % 9_000_017
        with torch.cuda.stream(streams[turn % 3]):
            live[turn % 3].append(torch.empty(size + 1, dtype=torch.uint8, device="cuda"))
        if turn % 5 == 4:
            del live[turn % 3][:: 2 + turn % 2]
        if turn == 250:
            live[1].clear()
            torch.cuda.empty_cache()
    keep_alive(live)
    print_numbers()


if __name__ == "__main__":
    main()

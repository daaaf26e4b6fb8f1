# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The list of a file of programs, and how one of them is run.

    @program("kept.append(x)")     # what stands on the guilty line, which bears "# LEAK"; nothing = a sound program
    def a_list_that_grows(): ...

    if __name__ == "__main__":
        main()

No program decides by values of tensors: simulated CUDA computes none.
"""

import json
import random
import sys

PROGRAMS = {}


def program(*expect, also=(), iterations=None):
    """Registers a program. `expect`: rows that must be growing. `also`: lines that may be called growing besides, since the guilty one keeps what they make.
    `iterations`: how many there are of its last loop, where that is to be known exactly."""

    def register(function):
        PROGRAMS[function.__name__] = function
        function.expectation = (expect, tuple(also), iterations)
        return function

    return register


def main():
    if len(sys.argv) < 2:
        print(json.dumps({name: function.expectation for name, function in PROGRAMS.items()}))
        return
    import torch

    random.seed(0)
    torch.manual_seed(0)
    PROGRAMS[sys.argv[1]]()

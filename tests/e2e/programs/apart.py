# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Cases of a program that need a process each, forked when PyTorch is imported: main(apart.cases(sys.argv[1:])).

    program.py CASE...            all of them, here
    program.py --apart CASE...    each in a process of its own; it prints to CASE.out, and the driver's log is CASE.log
"""

import os
import sys


def cases(words):
    """Those of this process: none are left for the one that forked the others."""
    if words[:1] != ["--apart"]:
        return words
    for name in words[1:]:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(f"{name}.out", os.O_WRONLY | os.O_CREAT, 0o600), 1)
            os.environ["SIMCUDA_LOG"] = f"{name}.log"
            return [name]
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{name}: {status}")
    return []

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs programs, each in a process of its own that is forked when PyTorch is imported: one start for all of them. The trace of DIR/NAME.py is DIR/NAME.gmtrace.

    python forked.py PROGRAM.py...
"""

import gc
import os
import sys

import torch._dynamo  # which the first optimizer imports

gc.freeze()  # else each process collects all of that when it ends


def forked(path):
    """Whether this is the process for it."""
    child = os.fork()
    if child == 0:
        os.environ["GPUMEMSHIM_OUTPUT"] = path.removesuffix(".py") + ".gmtrace"
        return True
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{path}: {status}")
    return False


path = next(filter(forked, sys.argv[1:]), None)
if path:
    sys.argv = [path]
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), {"__name__": "__main__", "__file__": path})

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs programs one after another, each in a forked child of a process that has imported PyTorch: reads lines "PATH NAME [SEED]", prints each child's process
id and exit code.

    printf '%s\\n' 'bench/forecast/programs.py steady 0' | python bench/forecast/forked.py
"""

import os
import runpy
import sys

import torch  # noqa: F401 (imported once, for all children)


def run(path, *words):
    sys.argv = [path, *words]
    sys.path.insert(0, os.path.dirname(path))
    sys.stdin = open(os.devnull, encoding="utf-8")
    runpy.run_path(path, run_name="__main__")


def main():
    for line in sys.stdin.read().splitlines():
        child = os.fork()
        if child == 0:
            run(*line.split())
            return
        _, status = os.waitpid(child, 0)
        print(child, os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()

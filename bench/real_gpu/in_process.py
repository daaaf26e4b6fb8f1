# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs a script whose author recorded a memory history on a GPU, and keeps the history that it records here.

    simcuda/run python in_process.py --dump out.pickle [--nth 1] [--no-grad] [--call STATEMENT] SCRIPT ARGUMENTS...

The script is unmodified. Three things differ around it. Initial values of parameters on the host are left out (no memory of a GPU is involved, and
they would take minutes). The snapshot goes to --dump, whatever name the script gives; after the --nth snapshot the process ends. And where a history
begins and ends, the recorder gets marks named "history begins" and "history ends".
"""

import argparse
import os
import pickle
import runpy
import sys

import torch

BEGINS, ENDS = "history begins", "history ends"


def mark(name):
    try:
        import gpumemshim
    except ImportError:
        return
    gpumemshim.mark(name)


def skip_values_on_the_host():
    for name in ("trunc_normal_", "normal_", "uniform_", "kaiming_uniform_", "xavier_uniform_"):
        real = getattr(torch.nn.init, name)

        def initialise(tensor, *arguments, _real=real, **named):
            return tensor if tensor.device.type == "cpu" else _real(tensor, *arguments, **named)

        setattr(torch.nn.init, name, initialise)


class Ended(SystemExit):
    """The history that was asked for is written."""


def keep_history(dump, nth):
    """The script's --nth snapshot, by whichever of PyTorch's two functions it takes it, goes to `dump`; then the process ends."""
    memory = torch.cuda.memory
    record, snapshot = memory._record_memory_history, memory._snapshot
    count = 0

    def recording(enabled="all", *arguments, **named):
        record(enabled, *arguments, **named)
        if enabled is not None:
            mark(BEGINS)

    def taking(*_arguments, **_named):
        nonlocal count
        count += 1
        if count < nth:
            return
        mark(ENDS)
        with open(dump, "wb") as file:
            pickle.dump(snapshot(), file, protocol=4)
        raise Ended(0)

    memory._record_memory_history, memory._snapshot, memory._dump_snapshot = recording, taking, taking


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--nth", type=int, default=1, help="which snapshot of the script is kept (%(default)s)")
    parser.add_argument("--no-grad", action="store_true", help="run all of it under torch.no_grad()")
    parser.add_argument("--call", help="load the script without running its main part, and run this statement with its names")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    skip_values_on_the_host()
    torch.set_grad_enabled(not arguments.no_grad)
    keep_history(os.path.abspath(arguments.dump), arguments.nth)
    sys.argv = [arguments.script, *arguments.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(arguments.script))
    if arguments.call:
        names = runpy.run_path(arguments.script, run_name="script")
        exec(arguments.call, names)  # the author called a function by hand, and the script does not show how
    else:
        runpy.run_path(arguments.script, run_name="__main__")
    raise SystemExit(f"{arguments.script} ended before its snapshot {arguments.nth}")


if __name__ == "__main__":
    main()

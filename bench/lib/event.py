# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Cost of one event to the thread that causes it: the same calls, twenty frames deep, with and without the recorder; the difference."""

import pathlib
import shutil
import sys
import tempfile

import processes

# Every second call is a free, which has no stack otherwise: what is measured is an event with one.
WITH_STACKS = {"GPUMEMSHIM_FREE_STACKS": "1"}
FOLDER = processes.ROOT / "bench" / "event"


def difference(setup, rounds, plain_command, recorded_command=None, recorded_environment=None):
    """CPU nanoseconds that a call costs more. `recorded_environment(trace)`: of the second command; the recorder's where it is not given."""

    def plain():
        return processes.run_json(plain_command, setup.environment())["cpu_ns_a_call"]

    def recorded():
        if recorded_environment is not None:
            return processes.run_json(recorded_command, recorded_environment)["cpu_ns_a_call"]
        return processes.with_trace(setup, lambda env: processes.run_json(recorded_command or plain_command, {**env, **WITH_STACKS})["cpu_ns_a_call"])[0]

    without, with_it = processes.alternate(rounds, plain, recorded)
    return {
        "ns_an_event": processes.median([b - a for a, b in zip(without, with_it)]),
        "plain_ns": processes.spread(without),
        "recorded_ns": processes.spread(with_it),
    }


def native(setup, rounds, threads, pairs):
    program = setup.build / "bin" / "event_cost"
    return difference(setup, rounds, setup.on_cuda([program, "cuda", threads, pairs]))


def report(setup, rounds, threads, pairs):
    """The same stack, but PyTorch's report alone: simulated CUDA and its lock are not in it, so that threads meet only in the recorder."""
    program = setup.build / "bin" / "event_cost"
    return difference(setup, rounds, setup.on_cuda([program, "torch", threads, pairs]))


def python(setup, rounds, pairs):
    command = setup.on_cuda([setup.python, FOLDER / "torch_depth.py", "plain", pairs])
    return difference(setup, rounds, command)


def history(setup, rounds, pairs, stacks):
    """PyTorch's own recorder of the same events."""
    plain = setup.on_cuda([setup.python, FOLDER / "torch_depth.py", "plain", pairs])
    recorded = setup.on_cuda([setup.python, FOLDER / "torch_depth.py", f"history-{stacks}", pairs])
    return difference(setup, rounds, plain, recorded, setup.environment())


# What is recorded of a stack -> settings of the recorder.
STACKS = {
    "none": {"GPUMEMSHIM_UNWINDER": "none", "GPUMEMSHIM_PYTHON": "0"},
    "python": {"GPUMEMSHIM_NATIVE": "none"},
    "native": {"GPUMEMSHIM_PYTHON": "0"},
    "both_cut": {},
    "both_full": {"GPUMEMSHIM_NATIVE": "full"},
}
HISTORIES = ("none", "python", "all")


def by_stacks(setup, rounds, pairs, new):
    """One PyTorch event by what is recorded of its stack, in turn with PyTorch's own history. `new`: each stack is seen for the first time."""
    more = ["new"] if new else []

    def run(mode, environment):
        return processes.run_json(setup.on_cuda([setup.python, FOLDER / "torch_depth.py", mode, pairs, *more]), environment)["cpu_ns_a_call"]

    def recorded(settings):
        return processes.with_trace(setup, lambda environment: run("plain", {**environment, **WITH_STACKS, **settings}))[0]

    variants = {name: lambda settings=settings: recorded(settings) for name, settings in STACKS.items()}
    variants.update({f"history_{stacks}": lambda stacks=stacks: run(f"history-{stacks}", setup.environment()) for stacks in HISTORIES})
    without, *runs = processes.alternate(rounds, lambda: run("plain", setup.environment()), *variants.values())
    return {"plain_ns": processes.spread(without), **{name: {"ns_an_event": processes.median([b - a for a, b in zip(without, of)]), "ns": processes.spread(of)} for name, of in zip(variants, runs)}}


def heaptrack(setup, rounds, threads, pairs):
    """heaptrack records malloc and free with native stacks. None where it is not installed."""
    if not shutil.which("heaptrack"):
        print("heaptrack left out: it is not installed (apt-get install heaptrack)", file=sys.stderr)
        return None
    program = [setup.build / "bin" / "event_cost", "malloc", threads, pairs]
    with tempfile.TemporaryDirectory() as folder:
        # Only recorded, not read afterwards: up to 1.4 by --raw, by --record-only since.
        command = 'only=--raw; heaptrack --help | grep -q record-only && only=--record-only; heaptrack $only -o "$0" "$@" | grep "^{"'
        recorded = ["sh", "-c", command, pathlib.Path(folder) / "heaptrack", *program]
        return difference(setup, rounds, program, recorded, setup.environment())


def memray(setup, rounds, pairs, python_with_memray, native_stacks):
    """memray records malloc and free with Python stacks, on request with native ones."""
    script = [FOLDER / "python_depth.py", pairs]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--native"] if native_stacks else []
        recorded = [python_with_memray, "-m", "memray", "run", *options, "-f", "-q", "-o", pathlib.Path(folder) / "memray.bin", *script]
        return difference(setup, rounds, [python_with_memray, *script], recorded, setup.environment())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Step overhead that can be told from noise: blocks of steps in one process, with recording on and off in turn (bench/step/paired.py).

Whole processes differ by more than the recorder costs, on a shared machine by twenty percent. Blocks that stand beside each other in one process do
not, and what is left shows: the difference between blocks that both had it off is given beside it, and is zero but for noise.

    answer = paired.measure(setup, seconds=60)
    answer["gpt"]["recorder"]["overhead_percent"]      # {"median": 0.61, "low": 0.44, "high": 0.80, "rounds": 71}
"""

import math
import pathlib
import tempfile

import processes

PROGRAM = processes.ROOT / "bench" / "step" / "paired.py"
# Batch and length: an ordinary step, and one so small that launching kernels is most of it.
TRAININGS = {"gpt": (8, 1024), "gpt_small": (2, 128)}
CONFIDENCE = 0.95


def interval(values):
    """The median and its confidence interval: between two order statistics, which holds for every distribution. None, None where rounds are too few."""
    values, count = sorted(values), len(values)
    outside, low = 0.0, 0  # chance that the median lies below the low-th value
    while True:
        outside += math.comb(count, low) / 2**count
        if outside > (1 - CONFIDENCE) / 2:
            break
        low += 1
    ends = (values[low - 1], values[count - low]) if low else (None, None)
    return {"median": processes.median(values), "low": ends[0], "high": ends[1], "rounds": count}


def compared(rounds):
    """What the rounds say: percent by which a step was longer, and the same of two blocks that had nothing on."""
    if not rounds:
        raise processes.Failure("no round was measured: more time is needed")
    off = [math.sqrt(a * b) for a, b in (each["off"] for each in rounds)]
    return {
        "off_ms": processes.median(off),
        "on_ms": processes.median([each["on"] for each in rounds]),
        "overhead_percent": interval([100 * (each["on"] / base - 1) for each, base in zip(rounds, off)]),
        "noise_percent": interval([100 * (each["off"][1] / each["off"][0] - 1) for each in rounds]),
    }


def run(setup, what, training, seconds):
    batch, length = TRAININGS[training]
    command = setup.on_cuda([setup.python, PROGRAM, what, batch, length, seconds])
    if what == "history":
        answer = processes.run_json(command, setup.environment())
    else:
        with tempfile.TemporaryDirectory(prefix="gpumemshim-bench-") as folder:
            answer = processes.run_json(command, setup.environment(pathlib.Path(folder) / "paired.%p.gmtrace"))
    return {"steps_a_block": answer["steps_a_block"], **compared(answer["rounds"])}


def measure(setup, seconds, trainings=TRAININGS):
    """`seconds` for each training under the recorder, and half of it under PyTorch's history."""
    return {name: {"recorder": run(setup, "recorder", name, seconds), "history": run(setup, "history", name, seconds / 2)} for name in trainings}


def percent(found):
    if found["low"] is None:
        return f"{found['median']:+.2f} % (too few rounds for an interval)"
    return f"{found['median']:+.2f} % ({found['low']:+.2f} to {found['high']:+.2f})"


def table(answer):
    """As Markdown."""
    lines = ["| step | ms | recorder | PyTorch's history, all stacks | two blocks with neither |", "|---|---|---|---|---|"]
    for name, found in answer.items():
        batch, length = TRAININGS[name]
        recorder, history = found["recorder"], found["history"]
        lines.append(f"| {name}, {batch} x {length} tokens | {recorder['off_ms']:.2f} | {percent(recorder['overhead_percent'])} | "
                     f"{percent(history['overhead_percent'])} | {percent(recorder['noise_percent'])} |")  # fmt: skip
    return "\n".join(lines)

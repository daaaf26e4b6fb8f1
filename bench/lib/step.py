# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Step overhead: examples/train_gpt.py with and without the recorder, in turn; PyTorch's own history beside it."""

import pathlib
import re

import processes

SCRIPT = processes.ROOT / "examples" / "train_gpt.py"
HISTORY = processes.ROOT / "bench" / "step" / "with_history.py"
STEP_LINE = re.compile(r"^step\s+\d+\s+loss\s+\S+\s+([\d.]+) ms", re.M)
# The first steps pay for start-up: kernels loaded, caches filled, every stack new.
WARM_UP_STEPS = 10


def step_ms(output):
    """Median step of one process."""
    steps = [float(value) for value in STEP_LINE.findall(output)][WARM_UP_STEPS:]
    if not steps:
        raise processes.Failure("the training printed too few steps:\n" + output[-500:])
    return processes.median(steps)


def arguments(setup, steps):
    # On simulated CUDA nothing hides the recorder's cost: kernels take no time. On a GPU the batch is an ordinary one.
    return ["--steps", steps, "--batch", 8, "--length", 1024]


def measure(setup, rounds, steps, history=True):
    command = setup.on_cuda([setup.python, SCRIPT, *arguments(setup, steps)])
    in_history = setup.on_cuda([setup.python, HISTORY, SCRIPT, *arguments(setup, steps)])

    def plain():
        return step_ms(processes.run(command, setup.environment()))

    def recorded():
        return processes.with_trace(setup, lambda environment: step_ms(processes.run(command, environment)))[0]

    def with_history():
        return step_ms(processes.run(in_history, setup.environment()))

    variants = [plain, recorded] + ([with_history] if history else [])
    results = processes.alternate(rounds, *variants)
    answer = {"steps": steps, "plain_ms": processes.spread(results[0]), "recorded_ms": processes.spread(results[1])}
    answer["overhead_percent"] = overhead_percent(results[0], results[1])
    if history:
        answer["history_all_ms"] = processes.spread(results[2])
        answer["history_all_overhead_percent"] = overhead_percent(results[0], results[2])
    return answer


def overhead_percent(plain, other):
    """Median over the pairs of runs that stood beside each other."""
    return processes.median([100 * (b / a - 1) for a, b in zip(plain, other)])


def trace_of_training(setup, steps, folder):
    """A trace of a longer training, for the measurements of files and of the analyzer."""
    trace = pathlib.Path(folder) / "train.gmtrace"
    processes.run(setup.on_cuda([setup.python, SCRIPT, *arguments(setup, steps)]), setup.environment(trace))
    return trace

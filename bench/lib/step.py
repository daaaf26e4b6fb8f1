# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Step overhead: examples/train_gpt.py with and without the recorder; PyTorch's own history beside it."""

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile

import processes

SCRIPT = processes.ROOT / "examples" / "train_gpt.py"
HISTORY = processes.ROOT / "bench" / "step" / "with_history.py"
STEP_LINE = re.compile(r"^step\s+\d+\s+loss\s+\S+\s+([\d.]+) ms", re.M)
# The first steps pay for start-up: kernels loaded, caches filled, every stack new.
WARM_UP_STEPS = 10


def steps_ms(output):
    """The steps of one process, the fastest first."""
    steps = [float(value) for value in STEP_LINE.findall(output)][WARM_UP_STEPS:]
    if not steps:
        raise processes.Failure("the training printed too few steps:\n" + output[-500:])
    return sorted(steps)


# What is left out -> settings of the recorder: what each part costs shows against everything.
LEFT_OUT = {
    "stacks": {"GPUMEMSHIM_UNWINDER": "none", "GPUMEMSHIM_PYTHON": "0"},
    "attribution": {"GPUMEMSHIM_AUTOGRAD": "0", "GPUMEMSHIM_HELPER": "0"},
    "helper": {"GPUMEMSHIM_HELPER": "0"},
    "native_frames": {"GPUMEMSHIM_NATIVE": "none"},
}


def arguments(setup, steps):
    # On simulated CUDA nothing hides the recorder's cost: kernels take no time. On a GPU the batch is an ordinary one.
    return ["--steps", steps, "--batch", 8, "--length", 1024]


def measure(setup, rounds, steps, history=True):
    """The GPT's step, plain and recorded and under PyTorch's history. On simulated CUDA, where a step is CPU work, the two that are compared run at the
    same time, each on a core of its own and on the other's in the next round: the machine's slow moments meet both, and the recorder's thread shares the
    core of the training. What it costs where it has a core is measured in turn. A GPU is not shared: in turn."""
    script = [setup.python, SCRIPT, *arguments(setup, steps)]
    plain, history_command = setup.on_cuda(script), setup.on_cuda([setup.python, HISTORY, *script[1:]])
    together = setup.simulated and len(os.sched_getaffinity(0)) >= 2
    compare = side_by_side if together else in_turn
    with tempfile.TemporaryDirectory(prefix="gpumemshim-bench-") as folder:
        recorded = setup.environment(pathlib.Path(folder) / "step.%p.gmtrace")
        answer = {"steps": steps, "side_by_side": together, **named("recorded", compare(rounds, (plain, setup.environment()), (plain, recorded)))}
        if together:
            answer["overhead_percent_with_a_core_to_spare"] = fast_percent(*in_turn(2 * rounds, (plain, setup.environment()), (plain, recorded)))
        more = compare(max(1, rounds // 2), (plain, setup.environment()), (plain, {**recorded, "GPUMEMSHIM_FREE_STACKS": "1"}))
        answer["overhead_percent_with_free_stacks"] = overhead_percent(*more)
        for part, settings in LEFT_OUT.items():
            less = compare(max(1, rounds // 2), (plain, setup.environment()), (plain, {**recorded, **settings}))
            answer[f"overhead_percent_without_{part}"] = overhead_percent(*less)
    if history:
        answer = {**named("history_all", compare(rounds, (plain, setup.environment()), (history_command, setup.environment()))), **answer}
        answer["history_all_overhead_percent"] = answer.pop("history_all_overhead")
    answer["overhead_percent"] = answer.pop("recorded_overhead")
    return answer


def named(name, compared):
    """What a comparison found, as the fields of the answer."""
    plain, other = compared
    return {
        "plain_ms": processes.spread([run.step_ms for run in plain]),
        f"{name}_ms": processes.spread([run.step_ms for run in other]),
        f"{name}_overhead": overhead_percent(plain, other),
        f"{name}_rss_mib": processes.median([(b.rss_bytes - a.rss_bytes) / 2**20 for a, b in zip(plain, other)]),
    }


@dataclasses.dataclass
class Run:
    """One training: its median step, that of its fastest tenth (a neighbour on the machine only adds), and the most memory that it had resident."""

    step_ms: float
    fast_ms: float
    rss_bytes: int


def start(command, environment, core=None):
    """The running process and the file of its output."""
    output = tempfile.TemporaryFile("w+")
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    command = [str(part) for part in command]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=pin), output


def finish(process, output):
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    output.seek(0)
    text = output.read()
    output.close()
    if process.returncode:
        raise processes.Failure(f"exit {process.returncode}: {' '.join(process.args)}\n{text[-2000:]}")
    steps = steps_ms(text)
    return Run(processes.median(steps), steps[len(steps) // 10], usage.ru_maxrss * 1024)


def side_by_side(rounds, first, second):
    """Two commands (with their environments) at the same time, on two cores that they exchange."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    results = [], []
    for number in range(2 * rounds):
        of_first, of_second = cores if number % 2 == 0 else reversed(cores)
        started = [start(*first, of_first), start(*second, of_second)]
        for collected, running in zip(results, started):
            collected.append(finish(*running))
    return results


def in_turn(rounds, first, second):
    return processes.alternate(rounds, lambda: finish(*start(*first)), lambda: finish(*start(*second)))


def overhead_percent(plain, other):
    """Median over pairs of rounds of the geometric mean of their two ratios, which takes out what one core is slower than the other."""
    ratios = [b.step_ms / a.step_ms for a, b in zip(plain, other)]
    pairs = [(a * b) ** 0.5 for a, b in zip(ratios[0::2], ratios[1::2])] or ratios
    return 100 * (processes.median(pairs) - 1)


def fast_percent(plain, other):
    """By the fastest tenth of steps, median over the runs: without a second process that meets the same slow moments, medians of steps say more of these."""
    return 100 * (processes.median([run.fast_ms for run in other]) / processes.median([run.fast_ms for run in plain]) - 1)


def trace_of_training(setup, steps, folder):
    """A trace of a longer training, for the measurements of files and of the analyzer."""
    trace = pathlib.Path(folder) / "train.gmtrace"
    processes.run(setup.on_cuda([setup.python, SCRIPT, *arguments(setup, steps)]), setup.environment(trace))
    return trace

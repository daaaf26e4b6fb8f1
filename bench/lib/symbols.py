# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Names of native frames: what `gpumemshim report` costs without them, looked up, and out of the cache; and PyTorch's own snapshot."""

import os
import pathlib
import tempfile
import time

import processes
import step


def timed(command, cache):
    """Wall time, CPU time and peak resident memory of a command and its children."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("DEBUGINFOD_URLS", None)
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    started = time.perf_counter()
    child = os.posix_spawn(command[0], command, environment, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise processes.Failure(f"{' '.join(command)}: status {status}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def spread(runs):
    return {"wall_s": processes.spread([run[0] for run in runs]), "cpu_s": processes.spread([run[1] for run in runs]),
            "rss_mib": processes.median([run[2] for run in runs])}


def gpumem(setup, trace, rounds):
    report = [str(setup.gpumem), "report", "--json", str(trace)]
    variants = {"none": [], "cold": [], "cached": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-cache-") as cache:
            variants["none"].append(timed(report + ["--no-native-symbols"], cache))
            variants["cold"].append(timed(report, cache))
            variants["cached"].append(timed(report, cache))
    return {name: spread(runs) for name, runs in variants.items()}


def snapshot(setup, steps):
    """PyTorch's own: the same training under its history with all stacks, then torch.cuda.memory._snapshot()."""
    program = processes.ROOT / "bench" / "step" / "snapshot.py"
    return processes.run_json(setup.on_cuda([setup.python, program, step.SCRIPT, *step.arguments(setup, steps)]), setup.environment())


def measure(setup, trace, rounds, steps):
    answer = gpumem(setup, pathlib.Path(trace), rounds)
    answer["torch_snapshot"] = snapshot(setup, steps)
    return answer

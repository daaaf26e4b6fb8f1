# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How the benchmarks start what they measure: with the recorder, without it, on simulated CUDA or on a GPU."""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failure(Exception):
    """A measured command did not do what it should."""


@dataclasses.dataclass
class Setup:
    build: pathlib.Path
    python: str
    simulated: bool

    @property
    def shim(self):
        return self.build / "lib" / "libgpumemshim.so"

    @property
    def gpumem(self):
        return self.build / "bin" / "gpumemshim"

    def on_cuda(self, command):
        """The command as it runs on this machine's kind of CUDA."""
        command = [str(part) for part in command]
        return [str(ROOT / "simcuda" / "run"), *command] if self.simulated else command

    def environment(self, trace=None):
        """Clean of settings that would change a measurement; with `trace`, under the recorder."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "PYTORCH_", "LD_PRELOAD"))}
        if self.simulated:
            environment["SIMCUDA_LIB"] = str(self.build / "lib" / "simcuda")
        if trace:
            environment.update(LD_PRELOAD=str(self.shim), GPUMEMSHIM_OUTPUT=str(trace), GPUMEMSHIM_QUIET="1")
        return environment


def run(command, environment=None, timeout_s=600):
    """Standard output of a command that must succeed."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{' '.join(command)}: {error}") from None
    if done.returncode:
        raise Failure(f"exit {done.returncode}: {' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def run_json(command, environment=None):
    """The last line of a command's output, read as JSON."""
    lines = run(command, environment).strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        raise Failure(f"no JSON line from {' '.join(map(str, command))}: {lines[-3:]}") from None


def with_trace(setup, measure):
    """measure(environment) under the recorder with a trace in a folder that goes afterwards. Returns (result, bytes of the trace)."""
    with tempfile.TemporaryDirectory(prefix="gpumemshim-bench-") as folder:
        trace = pathlib.Path(folder) / "bench.gmtrace"
        result = measure(setup.environment(trace))
        if not trace.exists():
            raise Failure("no trace was written under the recorder")
        return result, trace.stat().st_size


def alternate(rounds, *variants):
    """Runs the variants in turn, so that a slow minute of the machine meets all of them. A list of results for each variant."""
    results = [[] for _ in variants]
    for _ in range(rounds):
        for collected, variant in zip(results, variants):
            collected.append(variant())
    return results


def median(values):
    return statistics.median(values)


def spread(values):
    """Median and range: what a reader needs to judge a number from a noisy machine."""
    return {"median": median(values), "min": min(values), "max": max(values), "runs": len(values)}

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Start-up: what a process that never touches CUDA pays for the preload, measured on /bin/true."""

import os
import time

import processes


def spawn_ns(environment):
    """From posix_spawn to the child's end."""
    started = time.perf_counter_ns()
    pid = os.posix_spawn("/bin/true", ["true"], environment)
    _, status = os.waitpid(pid, 0)
    elapsed = time.perf_counter_ns() - started
    if status:
        raise processes.Failure(f"/bin/true ended with status {status}")
    return elapsed


def measure(setup, rounds):
    plain_environment = {"PATH": "/usr/bin:/bin"}
    recorded_environment = {**plain_environment, "LD_PRELOAD": str(setup.shim)}
    plain, recorded = processes.alternate(rounds, lambda: spawn_ns(plain_environment), lambda: spawn_ns(recorded_environment))
    return {
        "rounds": rounds,
        "plain_ms": processes.median(plain) / 1e6,
        "recorded_ms": processes.median(recorded) / 1e6,
        "added_ms": (processes.median(recorded) - processes.median(plain)) / 1e6,
    }

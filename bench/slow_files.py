#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A training loop whose trace is on a file system that is slow, hangs or fails: what the loop takes, and what is lost.

    bench/slow_files.py [--build build/release] [--runs 3] [--steps 1200]

The file system is played by a library that stands before write(2) for traces (tests/hosts/slow_files_preload.cc). Each mode runs in turn, so that other
work on the machine falls on all alike; medians are shown.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = """
import sys, threading, time, torch
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def train(steps):
    for _ in range(steps):
        model(torch.randn(8, 64, device="cuda")).sum().backward(); optimizer.step(); optimizer.zero_grad()
train(20)
start, cpu = time.perf_counter(), time.thread_time()
train(int(sys.argv[1]))
print(f"loop {time.perf_counter() - start} {time.thread_time() - cpu}", flush=True)
open(sys.argv[2], "w").close()
"""
MODES = {
    "as it is": {},
    "each write takes 100 ms": {"SLOW_FILES": "delay:100"},
    "each write takes 1 s": {"SLOW_FILES": "delay:1000"},
    "each write takes 30 s": {"SLOW_FILES": "delay:30000"},
    "hangs until the loop is over": {"SLOW_FILES": "wait", "SLOW_FILES_FROM": "3"},
    "EIO from the 10th write on": {"SLOW_FILES": "5", "SLOW_FILES_FROM": "10"},
    "ESTALE for 20 writes": {"SLOW_FILES": "116", "SLOW_FILES_FROM": "10", "SLOW_FILES_TO": "30"},
    "ENOSPC from the 10th write on": {"SLOW_FILES": "28", "SLOW_FILES_FROM": "10"},
}


def run(build, steps, mode):
    with tempfile.TemporaryDirectory(prefix="gpumemshim-slow-") as folder:
        gate = pathlib.Path(folder) / "gate"
        program = pathlib.Path(folder) / "program.py"
        program.write_text(PROGRAM, encoding="utf-8")
        preload = f"{build / 'lib' / 'libgpumemshim.so'}:{build / 'tests' / 'hosts' / 'libpreload_slow_files.so'}"
        environment = {**os.environ, **mode, "SLOW_FILES_GATE": str(gate), "LD_PRELOAD": preload, "GPUMEMSHIM_OUTPUT": f"{folder}/run.gmtrace"}
        command = [str(ROOT / "simcuda" / "run"), str(ROOT / ".venv" / "bin" / "python"), str(program), str(steps), str(gate)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
        wall, cpu = map(float, re.search(r"loop (\S+) (\S+)", done.stdout).groups())
        # Where the end was not written in time, what is not in the file is in the ring, and not lost.
        lines = re.findall(r"gpumemshim: ([\d,]+) events .* ([\d,]+) lost", done.stderr)
        lines = lines or [(number, "the rest is in the ring") for number in re.findall(r": ([\d,]+) events are in", done.stderr)]
        return wall, cpu, *lines[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1200)
    arguments = parser.parse_args()
    found = {name: [] for name in MODES}
    for _ in range(arguments.runs):
        for name, mode in MODES.items():
            found[name].append(run(arguments.build.resolve(), arguments.steps, mode))
            print(f"{name}: {found[name][-1]}", file=sys.stderr)
    print("| write(2) to the trace | loop, wall clock | loop, its thread's CPU time | events in the trace | lost |\n|---|---|---|---|---|")
    for name, runs in found.items():
        wall, cpu = (statistics.median(each[i] for each in runs) for i in (0, 1))
        by_events = sorted(runs, key=lambda each: int(each[2].replace(",", "")))
        _, _, events, lost = by_events[len(by_events) // 2]
        print(f"| {name} | {wall:.2f} s | {cpu:.2f} s | {events} | {lost} |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How long `gpumemshim ranks` takes for many ranks, from summaries: a job of 8 ranks is recorded, and its summaries are copied and varied.

    bench/ranks.py [--ranks 1000 --ranks 10000] [--runs FOLDER]

Each rank gets a number, a host and peaks of its own (up to 0.4 % more or less); one of them is the recorded rank with the larger batch, and must be
named with its cause. Prints the rows of bench/results/*-ranks.md.
"""

import argparse
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import rank_jobs  # noqa: E402
import truth  # noqa: E402

ODD = rank_jobs.FIRST["uneven_batch"].rank


def measure(command):
    """(seconds, MiB of resident memory at most so far of any child, stdout)."""
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {' '.join(command)}\n{done.stderr}")
    return time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, done.stdout


def varied(recorded, rank, ranks, odd):
    (normal,) = random.sample([each for each in recorded if each["rank"] != ODD], 1)
    (unlike,) = (each for each in recorded if each["rank"] == ODD)
    summary = dict(unlike if rank == odd else normal)
    factor = 1 + random.uniform(-0.004, 0.004)
    summary.update(rank=rank, world_size=ranks, local_rank=rank % 8, hostname=f"node{rank // 8}", pid=1000 + rank, ancestors=[])
    for name in ("peak_allocated_bytes", "peak_reserved_bytes", "peak_total_bytes"):
        summary[name] = int(summary[name] * factor)
    summary["steps"] = [[step, int(allocated * factor), int(total * factor)] for step, allocated, total in summary["steps"]]
    return summary


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, action="append", help="how many (1000, 10000); may be repeated")
    parser.add_argument("--runs", type=pathlib.Path, help="the recorded job of 8 ranks, if there is one already")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()
    setup = truth.Setup(arguments.build.resolve(), str(ROOT / ".venv" / "bin" / "python"), simulated=True)
    random.seed(7)
    with tempfile.TemporaryDirectory(prefix="gpumemshim-bench-ranks-") as place:
        folder = pathlib.Path(place)
        runs = arguments.runs
        if runs is None:
            runs = folder / "runs"
            runs.mkdir()
            rank_jobs.record(setup, runs, rank_jobs.FIRST["uneven_batch"], 8)
        seconds, _, _ = measure([setup.gpumem, "ranks", "--json", "--write-summaries", str(runs)])
        print(f"| 8 traces, summaries written | {seconds:.2f} s | |")
        recorded = [json.loads(path.read_text()) for path in sorted(runs.glob("*.summary"))]
        for ranks in arguments.ranks or [1000, 10000]:
            odd = ranks * 7 // 9
            file = folder / f"{ranks}.summary"
            file.write_text("".join(json.dumps(varied(recorded, rank, ranks, odd)) + "\n" for rank in range(ranks)))
            seconds, memory, out = measure([setup.gpumem, "ranks", "--json", str(file)])
            headline = json.loads(out)["headline"]
            if f"rank {odd} holds" not in headline or "inputs are [8, 128] instead of [2, 128]" not in headline:
                sys.exit(f"the odd rank {odd} is not named: {headline}")
            print(f"| {ranks:,} summaries, {file.stat().st_size / ranks / 1024:.1f} KiB each | {seconds:.2f} s | {memory:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()

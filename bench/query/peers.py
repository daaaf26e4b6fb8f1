#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""One history, read by gpumemshim and by others: query_bench's made-up training as our trace, as PyTorch's snapshot (for its _memory_viz.py), and as a recording of
heaptrack (for heaptrack_print). CPU seconds, wall-clock seconds and largest resident memory of each, as a table.

    bench/query/peers.py [EVENTS] [--pytorch]      --pytorch: _memory_viz.py too, which takes about 2 GB a million events
"""

import argparse
import csv
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"
PYTHON = ROOT / ".venv" / "bin" / "python"


def measure(*command):
    """(CPU s, wall s, MiB) of a command whose output nobody reads."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss / 1024


def write_heaptrack(trace, path):
    """The blocks of PyTorch's allocator as mallocs; each line of the program as a stack of one function. Its format, version 3: docs in heaptrack's src/util."""
    events = subprocess.Popen([BIN / "gpumemshim", "export", "csv", str(trace), "--layer", "torch"], stdout=subprocess.PIPE, text=True)
    traces, allocations, live = {}, {}, {}
    with open(path, "w") as out:
        out.write("v 10400 3\nX python train.py\nI 1000 5e298f\ns 6 python\n")
        for row in csv.DictReader(events.stdout):
            if row["kind"] == "alloc":
                number = traces.get(row["site"])
                if number is None:
                    number = traces[row["site"]] = len(traces) + 1
                    out.write(f"s {len(row['site']):x} {row['site']}\ni {4096 + number:x} 1 {number + 1:x}\nt {number:x} 0\n")
                key = (row["size_bytes"], number)
                if key not in allocations:
                    allocations[key] = len(allocations)
                    out.write(f"a {int(row['size_bytes']):x} {number:x}\n")
                live[row["address"]] = allocations[key]
                out.write(f"+ {allocations[key]:x}\n")
            elif row["kind"] == "free":
                out.write(f"- {live.pop(row['address']):x}\n")
        out.write("c 1\n")
    if events.wait() != 0:
        raise SystemExit("gpumemshim export csv failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--pytorch", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpumemshim-peers-") as folder:
        folder = pathlib.Path(folder)
        trace, pickle, heap = folder / "run.gmtrace", folder / "run.pickle", folder / "heaptrack.run"
        subprocess.run([BIN / "query_bench", str(arguments.events), "--write", trace], check=True)
        gpumem = BIN / "gpumemshim"
        rows = {
            "gpumemshim report --json": measure(gpumem, "report", "--json", trace),
            "gpumemshim peak": measure(gpumem, "peak", trace),
            "gpumemshim at, with categories": measure(gpumem, "at", "peak", trace),
        }
        for name in ("gpumemshim sql, which builds the index", "gpumemshim sql again"):
            rows[name] = measure(gpumem, "sql", trace, "SELECT line, sum(size) FROM blocks GROUP BY ALL")
        rows["gpumemshim export perfetto"] = measure(gpumem, "export", "perfetto", trace, "-o", folder / "run.perfetto")
        rows["gpumemshim export pytorch"] = measure(gpumem, "export", "pytorch", trace, "-o", pickle)
        sizes = {"the trace": trace.stat().st_size, "PyTorch's snapshot of it": pickle.stat().st_size}
        if arguments.pytorch:
            viz = next((PYTHON.parent.parent / "lib").glob("python3*/site-packages/torch/cuda/_memory_viz.py"))
            rows["_memory_viz.py trace_plot"] = measure(PYTHON, viz, "trace_plot", pickle, "-o", folder / "run.html")
            rows["_memory_viz.py trace"] = measure(PYTHON, viz, "trace", pickle)
        pickle.unlink()
        if shutil.which("heaptrack_print"):
            write_heaptrack(trace, heap)
            sizes["heaptrack's file of it"] = heap.stat().st_size
            rows["heaptrack_print"] = measure("heaptrack_print", heap)
    print(f"| {arguments.events:,} events | CPU s | wall s | events/s of CPU | largest resident memory |\n|---|---|---|---|---|")
    for name, (cpu, wall, mib) in rows.items():
        print(f"| {name} | {cpu:.1f} | {wall:.1f} | {arguments.events / cpu / 1e6:.2f} M | {mib:,.0f} MiB |")
    print("\n" + "; ".join(f"{name}: {size / 1e6:,.0f} MB" for name, size in sizes.items()))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What `gpumemshim import` costs on a snapshot of a million entries (or --entries 5000000: 1 GB), and Python's own pickle.load beside it: CPU seconds and largest resident memory.

    bench/import_snapshot.py [--build build/release] [--entries 1000000]

CPU time, not elapsed time: it means the same on a busy machine. The best of three runs each.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def cost(command):
    """(CPU seconds, largest resident bytes) of a command."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.execvp(command[0], command)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--entries", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpumemshim-bench-") as folder:
        pickle, trace = f"{folder}/snapshot.pickle", f"{folder}/snapshot.gmtrace"
        subprocess.run([sys.executable, HERE / "make_snapshot.py", pickle, str(arguments.entries)], check=True)
        commands = {
            "gpumemshim import": [str(arguments.build / "bin" / "gpumemshim"), "import", "--force", "-o", trace, pickle],
            "pickle.load": [sys.executable, "-c", f"import pickle; pickle.load(open({pickle!r}, 'rb'))"],
        }
        answer = {"entries": arguments.entries, "pickle_bytes": os.path.getsize(pickle)}
        for name, command in commands.items():
            seconds, resident = min(cost(command) for _ in range(3))
            answer[name] = {"cpu_s": round(seconds, 2), "max_rss_bytes": resident}
        answer["trace_bytes"] = os.path.getsize(trace)
        print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()

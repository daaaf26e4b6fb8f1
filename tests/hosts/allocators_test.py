# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Many runs beside jemalloc, tcmalloc and mimalloc, before us and after us, while other processes keep every core busy: each prints and returns what it
does with the allocator alone, and its trace has all of its events.

    python tests/hosts/allocators_test.py --build build/release --hosts build/release/tests/hosts --runs 1000
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SYSTEM = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2.0"}
SKIPPED = 77
LIMIT_S = 300


@contextlib.contextmanager
def busy_cores():
    """A loop on each core that the runs share it with."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class Runs:
    def __init__(self, arguments):
        self.build, self.host = arguments.build.resolve(), arguments.hosts.resolve() / "preloads_host"

    def run(self, preloads):
        """(exit code, output, errors without our line, our line, events of the trace or why there is none)"""
        with tempfile.TemporaryDirectory(prefix="gpumemshim-allocators-") as folder:
            base = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "SIMCUDA_", "LD_"))}
            environment = {**base, "LD_LIBRARY_PATH": f"{self.build / 'lib' / 'simcuda'}:{self.host.parent}", "LD_PRELOAD": ":".join(map(str, preloads)), "GPUMEMSHIM_RING_DIRECTORY": folder}
            done = subprocess.run([self.host], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
            ours = [line for line in done.stderr.splitlines() if line.startswith("gpumemshim:")]
            theirs = [line for line in done.stderr.splitlines() if not line.startswith("gpumemshim:")]
            return done.returncode, done.stdout, theirs, ours, [path.stat().st_size > 0 for path in pathlib.Path(folder).glob("*.gmtrace")]

    def judge(self, name, number):
        """What was wrong with one run, or None."""
        allocator, ours = SYSTEM / ALLOCATORS[name], self.build / "lib" / "libgpumemshim.so"
        code, output, theirs, lines, traces = self.run([allocator, ours] if number % 2 == 0 else [ours, allocator])
        if (code, output, theirs) != self.alone[name][:3]:
            return f"exit {code}, output {output[-200:]!r}, errors {theirs[-3:]}; alone {self.alone[name][:3]}"
        if traces != [True]:
            return f"traces: {traces}, our line: {lines}"
        said = re.search(r"([\d,]+) events .*, 0 lost", " ".join(lines))
        return None if said and said[1] == self.events else f"our line: {lines}, {self.events} events were expected"

    def check(self, names, runs):
        self.alone = {name: self.run([SYSTEM / ALLOCATORS[name]]) for name in names}
        self.events = re.search(r"([\d,]+) events", " ".join(self.run([self.build / "lib" / "libgpumemshim.so"])[3]))[1]
        wrong = collections.defaultdict(list)
        with busy_cores(), concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:
            for name in names:
                for number, fault in enumerate(pool.map(lambda number, name=name: self.judge(name, number), range(runs))):
                    if fault:
                        wrong[name].append(f"run {number} beside {name}, {'before' if number % 2 == 0 else 'after'} us: {fault}")
                print(f"{name}: {runs} runs, {len(wrong[name])} wrong", flush=True)
        return [fault for faults in wrong.values() for fault in faults]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--hosts", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=1000, help="with each allocator")
    parser.add_argument("-v", action="store_true")
    arguments = parser.parse_args()
    names = [name for name, file in ALLOCATORS.items() if (SYSTEM / file).exists()]
    if not names:
        print("skipped: none of jemalloc, tcmalloc, mimalloc is installed. Run scripts/bootstrap --all.")
        return SKIPPED
    wrong = Runs(arguments).check(names, arguments.runs)
    for fault in wrong[:20]:
        print(fault)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

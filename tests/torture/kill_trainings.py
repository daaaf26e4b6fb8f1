# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Kills trainings at random moments, over and over, and looks whether anything that PyTorch acknowledged is missing from what `gpumemshim report` finds.

    python tests/torture/kill_trainings.py --build build/release --kills 300 [--seed N]

A server process imports PyTorch once and forks a child for each kill, before CUDA is touched. The child trains on simulated CUDA; after each step it
writes PyTorch's own counters of allocations and frees into shared memory, which outlives it: these are acknowledged. A third of the children train
on two threads, and a third have a child process of their own that trains too and is killed with them. SIGKILL comes after a random number of
steps and a random delay. Then the trace, with the ring that the process left, must hold at least what was acknowledged, less what it counts as
dropped; it must answer, and must not call itself complete. Exit 0 where all of that held, else 1.
"""

import argparse
import contextlib
import json
import mmap
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOTS = 4  # (pid, steps, allocations, frees) each
SLOT = struct.Struct("<QQQQ")


def train(shared, slot, threads):
    """Never ends. PyTorch's counters are of the whole process, so one thread acknowledges for all."""
    import threading

    import torch

    def loop(acknowledges):
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        data = torch.randn(16, 64, device="cuda")
        steps = 0
        while True:
            before = torch.cuda.memory_stats() if acknowledges else None
            model(data).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if acknowledges:  # what was counted before this step began has returned from PyTorch on whatever thread
                SLOT.pack_into(shared, slot * SLOT.size, os.getpid(), steps, before.get("allocation.all.allocated", 0), before.get("allocation.all.freed", 0))

    # PyTorch 2.11's autograd engine counts devices once; where two threads are the first at the same time, one of them finds no queue (seen once in 364 kills).
    torch.ones(1, device="cuda", requires_grad=True).sum().backward()
    for _ in range(threads - 1):
        threading.Thread(target=loop, args=(False,), daemon=True).start()
    loop(True)


def serve():
    """Reads "PATH THREADS CHILDREN" lines, forks a training for each, answers with its pid; "end PID" waits for it."""
    import torch  # noqa: F401 what children find imported

    for line in sys.stdin:
        words = line.split()
        if words[0] == "end":
            _, status = os.waitpid(int(words[1]), 0)
            print(status, flush=True)
            continue
        path, threads, children = words[0], int(words[1]), int(words[2])
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            with open(path, "r+b") as file:
                shared = mmap.mmap(file.fileno(), 0)
            slot = 0
            for i in range(children):
                if os.fork() == 0:
                    slot = i + 1
                    break
            train(shared, slot, threads)
        with contextlib.suppress(PermissionError):  # of the two of us, who is first makes the group that is killed
            os.setpgid(pid, pid)
        print(pid, flush=True)


class Kills:
    def __init__(self, build, seed, verbose):
        self.build, self.random, self.verbose = build, random.Random(seed), verbose
        self.folder = tempfile.TemporaryDirectory(prefix="gpumemshim-kills-")
        self.rings = tempfile.TemporaryDirectory(prefix="gpumemshim-kills-", dir="/dev/shm")
        self.totals = {"kills": 0, "traces": 0, "acknowledged": 0, "found": 0, "dropped": 0, "without a trace": 0}
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "SIMCUDA_", "PYTORCH_"))}
        environment.update(
            SIMCUDA_LIB=str(build / "lib" / "simcuda"), LD_PRELOAD=str(build / "lib" / "libgpumemshim.so"), GPUMEMSHIM_QUIET="1",
            GPUMEMSHIM_RING_DIRECTORY=self.rings.name, GPUMEMSHIM_OUTPUT=f"{self.folder.name}/%p.gmtrace",
        )
        command = [str(ROOT / "simcuda" / "run"), str(ROOT / ".venv" / "bin" / "python"), __file__, "--serve"]
        self.server = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self):
        self.server.stdin.close()
        self.server.wait()

    def ask(self, line):
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline()
        if not answer:
            sys.exit("the server of trainings ended")
        return int(answer)

    def run(self):
        threads, children = self.random.choice([(1, 0), (2, 0), (1, 2)])
        shared = pathlib.Path(self.folder.name, "shared")
        shared.write_bytes(bytes(SLOTS * SLOT.size))
        pid = self.ask(f"{shared} {threads} {children}")
        try:
            self.wait_for(shared, children + 1, self.random.choice([0, 1, 1, 30, 100, 400]))
            time.sleep(self.random.choice([0, 0, 0.001, 0.02, 0.2]) * self.random.random())
        finally:  # a training that is left alone never ends
            os.killpg(pid, signal.SIGKILL)
        self.ask(f"end {pid}")
        problems = [problem for slot in range(children + 1) if (problem := self.check(shared.read_bytes(), slot))]
        self.totals["kills"] += 1
        for leftover in [*pathlib.Path(self.folder.name).iterdir(), *pathlib.Path(self.rings.name).iterdir()]:
            if not problems:
                leftover.unlink()
        return problems

    def wait_for(self, shared, processes, steps):
        deadline = time.monotonic() + 120
        while any(SLOT.unpack_from(shared.read_bytes(), slot * SLOT.size)[1] < steps for slot in range(processes)):
            if time.monotonic() > deadline:
                sys.exit("a training did not get far enough")
            time.sleep(0.002)

    def check(self, shared, slot):
        """None, or what is wrong with the trace of the process of `slot`."""
        pid, steps, allocated, freed = SLOT.unpack_from(shared, slot * SLOT.size)
        if pid == 0:  # killed before its first step ended: whatever there is must be readable
            return None
        trace = pathlib.Path(self.folder.name, f"{pid}.gmtrace")
        if not trace.exists():
            self.totals["without a trace"] += 1
            rings = list(pathlib.Path(self.rings.name).glob(f"gpumemshim.{pid}.*.ring"))
            if not rings:
                return f"pid {pid}: {steps} steps, and neither trace nor ring"
            trace = rings[0]
        done = subprocess.run([str(self.build / "bin" / "gpumemshim"), "report", "--json", str(trace)], capture_output=True, text=True)
        if done.returncode not in (0, 4):
            return f"pid {pid}: gpumemshim report ended with {done.returncode}: {done.stderr.strip()}"
        answer = json.loads(done.stdout)
        losses = answer["losses"]
        dropped = losses["dropped_allocs"] + losses["dropped_frees"] + losses.get("unwritten_events", 0)
        acknowledged, found = allocated + freed, answer["events"]["torch"]
        self.totals["traces"] += 1
        for name, value in (("acknowledged", acknowledged), ("found", found), ("dropped", dropped)):
            self.totals[name] += value
        if self.verbose:
            print(f"pid {pid}: {steps} steps, {acknowledged} acknowledged, {found} found, {dropped} dropped", flush=True)
        if found + dropped < acknowledged:
            return f"pid {pid}: {acknowledged} events acknowledged, {found} found, {dropped} dropped; left in {trace}"
        if answer["complete"]:
            return f"pid {pid}: a killed process's trace is called complete"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve()
    if not os.access(ROOT / ".venv" / "bin" / "python", os.X_OK):
        print("skipped: no PyTorch to run trainings with. Run scripts/bootstrap")
        sys.exit(77)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    kills = Kills(arguments.build.resolve(), seed, arguments.verbose)
    for number in range(arguments.kills):
        try:
            problems = kills.run()
        except BaseException:
            print(f"kill {number} of seed {seed}", file=sys.stderr)
            raise
        if problems:
            kills.folder._finalizer.detach()  # what is left tells why
            sys.exit(f"kill {number} of seed {seed}: " + "; ".join(problems))
    kills.close()
    print(", ".join(f"{name} {value}" for name, value in kills.totals.items()), f"(seed {seed})")


if __name__ == "__main__":
    main()

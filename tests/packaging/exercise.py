#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Uses an installed gpumemshim as its users do: run, report, html, sql, plan, attach, bundle on PyTorch over the simulated CUDA that was installed with it. What it
says of the program must be what PyTorch says of itself.

    tests/packaging/exercise.py --gpumem P/bin/gpumemshim --python .venv/bin/python --folder /tmp/x [--steps version,record,report]

Standard library of Python 3.9 only, and nothing of this repository: it is copied into roots that have nothing else. Prints a line for each step and
ends with exit code 1 at the first that is wrong.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

PROGRAM = """
import json, torch
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "version": torch.__version__}))
"""
# Attached to while it waits for a line; what it allocates afterwards is recorded.
LONG_PROGRAM = """
import sys, torch
kept = [torch.ones(1 << 20, device="cuda")]
print("ready", flush=True)
sys.stdin.readline()
kept += [torch.ones(1 << 20, device="cuda") for _ in range(8)]
print(torch.cuda.memory_allocated(), flush=True)
sys.stdin.readline()
"""


# In this order: all but the first look at what record wrote.
STEPS = ["version", "record", "report", "html", "sql", "plan", "attach", "bundle"]


class Wrong(Exception):
    pass


def expect(holds, what):
    if not holds:
        raise Wrong(what)


class Exercise:
    def __init__(self, gpumem, python, folder):
        self.gpumem, self.python, self.folder = gpumem, python, folder
        self.launcher = [str(gpumem), "simulate", "--"]
        # The environment of somebody who knows nothing of this repository.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM", "SIMCUDA_", "LD_", "PYTHON"))}
        self.environment["PATH"] = f"{pathlib.Path(python).parent}:{self.environment.get('PATH', '/usr/bin:/bin')}"
        self.trace = folder / "train.gmtrace"
        self.said = {}

    def run(self, *command, codes=(0,)):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL)
        expect(done.returncode in codes, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments):
        return json.loads(self.run(self.gpumem, *arguments).stdout)

    def version(self):
        text = self.run(self.gpumem, "--version").stdout
        expect(re.fullmatch(r"gpumemshim \d+\.\d+\.\d+\n", text), text)
        return text.strip()

    def record(self):
        program = self.folder / "train.py"
        program.write_text(PROGRAM)
        done = self.run(*self.launcher, self.gpumem, "run", "--force", "-o", self.trace, "--", self.python, program)
        expect("ld.so" not in done.stderr, done.stderr)
        self.check_unwinder()
        self.said = json.loads(done.stdout.splitlines()[-1])
        return f"torch {self.said['version']}, peak {self.said['peak']}"

    def check_unwinder(self):
        """A package brings a fast one, on machines that have none."""
        prefix = self.gpumem.resolve().parent.parent
        trees = [prefix, prefix / "gpumemshim", *prefix.glob("lib/python3*/site-packages/gpumemshim")]
        if any((tree / "lib/gpumemshim/libunwind.so.8").exists() for tree in trees):
            expect('"unwinder": "libunwind"' in self.run(self.gpumem, "info", "--json", self.trace).stdout, "native stacks do not come from libunwind")

    def report(self):
        device = self.json("report", "--json", self.trace)["devices"][0]
        peak = device["peak"]["allocated_bytes"]
        expect(peak == self.said["peak"], f"peak {peak}, PyTorch says {self.said['peak']}")
        text = self.run(self.gpumem, "report", self.trace).stdout
        expect("train.py:" in text and "optimizer state" in text, text)
        return f"peak {peak}, with lines and categories"

    def html(self):
        page = self.folder / "page.html"
        self.run(self.gpumem, "html", "-o", page, self.trace)
        expect("train.py" in page.read_text(), "the page does not name the program's file")
        return f"{page.stat().st_size} bytes"

    def sql(self):
        rows = self.json("sql", "--json", self.trace, "SELECT count(*) AS n FROM events")["rows"]
        expect(rows[0]["n"] > 100, rows)
        return f"{rows[0]['n']} events"

    def plan(self):
        answer = self.json("plan", "--json", "--device", "h200", "--", "python3", self.folder / "train.py")
        peak = answer["peak"]["allocated_bytes"]
        expect(answer["verdict"] == "fits" and peak == self.said["peak"], f"{answer['verdict']}, peak {peak}, measured {self.said['peak']}")
        return f"fits, peak {peak}"

    def attach(self):
        trace = self.folder / "attached.gmtrace"
        program = subprocess.Popen([*self.launcher, self.python, "-c", LONG_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.environment, cwd=self.folder)
        try:
            expect(program.stdout.readline() == "ready\n", "the program did not start")
            self.run(self.gpumem, "attach", program.pid, "-o", trace)
            program.stdin.write("\n")
            program.stdin.flush()
            held = int(program.stdout.readline())
            program.stdin.close()
            expect(program.wait(60) == 0, f"the program ended with {program.returncode}")
        finally:
            program.kill()
            program.wait()
            program.stdout.close()
        peak = self.json("report", "--json", trace)["devices"][0]["peak"]["allocated_bytes"]
        expect(8 << 22 <= peak <= held, f"peak {peak} after attaching; PyTorch held {held}")
        return f"peak {peak} of {held} held"

    def bundle(self):
        archive = self.folder / "bug.zip"
        answer = self.json("bundle", "--json", self.trace, "-o", archive)
        expect(answer["failed"] == [], answer["failed"])
        with zipfile.ZipFile(archive) as files:
            report = files.read("report.txt").decode()
        expect("train.py:" in report and str(self.folder) not in report, report)
        return f"{len(answer['files'])} files, {answer['bytes']} bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumem", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="one with PyTorch")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where traces and pages go")
    parser.add_argument("--steps", type=lambda text: text.split(","), default=STEPS, help="some of " + ",".join(STEPS))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    exercise = Exercise(arguments.gpumem.absolute(), arguments.python, arguments.folder.absolute())
    for step in arguments.steps:
        try:
            print(f"{step}: {getattr(exercise, step)()}", flush=True)
        except (Wrong, KeyError, ValueError, OSError, subprocess.SubprocessError) as error:
            print(f"{step}: WRONG: {type(error).__name__}: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

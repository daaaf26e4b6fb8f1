# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs a program again on simulated CUDA under the recorder, and keeps what PyTorch and the recorder saw between the program's own two calls.

    bench = Bench(build=Path("build/release"), pythons={"2.11.0": "/opt/venv/bin/python"}, work=Path("/tmp/work"))
    run = bench.script(history, checkout)          # the author's
    run = bench.own(history)                       # ours of the same model
    run.snapshot, run.trace                        # paths

Raises Failed with the end of what the program printed.
"""

import dataclasses
import os
import pathlib
import shlex
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"
LONGEST_S = 1800


class Failed(Exception):
    """The program did not come to its snapshot."""


class Unavailable(Exception):
    """Something that is needed is not at hand; the text says what."""


@dataclasses.dataclass(frozen=True)
class Run:
    snapshot: pathlib.Path
    trace: pathlib.Path
    torch: str


@dataclasses.dataclass
class Bench:
    build: pathlib.Path
    pythons: dict               # "2.11.0" or "2.11.0/3.12" -> a Python with that PyTorch
    work: pathlib.Path

    def python_of(self, history, torch=""):
        version = torch or history.torch
        wanted = f"{version}/{history.python}" if history.python else version
        if wanted not in self.pythons:
            raise Unavailable(f"no Python with torch {wanted.replace('/', ' for Python ')} was given")
        return self.pythons[wanted]

    def environment(self, history, paths):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "GPUMEMSHIM_", "SIMCUDA_", "PYTHONPATH"))}
        return {
            **kept,
            "SIMCUDA_LIB": str(self.build / "lib" / "simcuda"),
            "PYTHONPATH": os.pathsep.join(str(path) for path in (*paths, ROOT / "python")),
            **history.simulated,
        }

    def run(self, history, python, command, folder, paths):
        self.work.mkdir(parents=True, exist_ok=True)
        snapshot, trace = self.work / f"{history.facts}.pickle", self.work / f"{history.facts}.gmtrace"
        snapshot.unlink(missing_ok=True)
        options = ["--dump", str(snapshot), "--nth", str(history.nth)]
        options += ["--no-grad"] * history.no_grad + ["--call", history.call] * bool(history.call)
        whole = [str(self.build / "bin" / "gpumemshim"), "run", "--force", "-o", str(trace), "--", str(ROOT / "simcuda" / "run"), python, str(HERE / "in_process.py"), *options, *command]
        try:
            done = subprocess.run(whole, cwd=folder, env=self.environment(history, paths), capture_output=True, text=True, timeout=LONGEST_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {LONGEST_S} s") from None
        if done.returncode or not snapshot.is_file():
            raise Failed(f"exit {done.returncode}: {shlex.join(command)}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
        return Run(snapshot, trace, history.torch)

    def script(self, history, checkout):
        """The author's script, from its folder."""
        paths = [checkout / path for path in history.python_path]
        return self.run(history, self.python_of(history), [str(checkout / history.script), *shlex.split(history.arguments)], checkout / history.folder, paths)

    def own(self, history, torch=""):
        """Our own program of the same model, without anything of others."""
        program, *arguments = shlex.split(history.own)
        python = self.pythons.get(torch or history.torch)
        if python is None:
            raise Unavailable(f"no Python with torch {torch or history.torch} was given")
        plain = dataclasses.replace(history, no_grad=False, nth=1, call="")
        return self.run(plain, python, [str(PROGRAMS / program), *arguments], self.work, [])

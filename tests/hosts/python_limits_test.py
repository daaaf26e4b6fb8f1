# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Unusual Python stacks from end to end, in each CPython that is found: 10,000 calls deep, in a sub-interpreter, in greenlets.

    python tests/hosts/python_limits_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import pathlib
import subprocess

import hosts_test
import python_test

PROGRAM = pathlib.Path(__file__).resolve().with_name("python_limits_program.py")
CUT = "<callers not recorded>"
MOST = 512  # frames of a stack, the mark among them


class Limits(python_test.PythonTest):
    def stacks(self):
        """MiB of one allocation -> its frames as (is Python, function), from the caller of allocate() outwards."""
        found = {}
        for stack in self.peak()["stacks"]:
            frames = [(frame["python"], frame["function"]) for frame in stack["frames"]]
            start = frames.index((True, "allocate")) + 1 if (True, "allocate") in frames else [kind for kind, _ in frames].index(True)
            found[stack["bytes"] // stack["count"] // python_test.MIB] = frames[start:]
        return found

    def view(self, *command):
        done = subprocess.run([str(hosts_test.BUILD / "bin" / "gpumemshim"), *command, str(self.the_trace())], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"})
        return done.stdout

    def check_recursion(self, frames):
        self.assertIn(len(frames), range(MOST - 30, MOST))  # allocate() and the native frames are the rest
        self.assertEqual(frames[-1], (False, CUT))
        self.assertEqual(set(frames[:-1]), {(True, "deep")})
        for native in ("none", "trimmed", "full"):
            lines = [line for line in self.view("tree", "--no-collapse", "--percent-limit", "0", "--native", native).splitlines() if CUT in line]
            self.assertEqual(len(lines), 1, native)
            self.assertIn("1 MiB", lines[0])
        self.assertIn(CUT, self.view("export", "collapsed", "--native", "none"))
        self.assertIn(CUT, json.loads(self.view("flame", "--json"))["strings"])

    def check_sub_interpreter(self, minor, stacks):
        own = [(True, "within"), (True, "<module>")]
        outer = [(True, name) for name in ("sub_interpreter", "main", "<module>")]
        self.assertEqual(stacks[2], own if minor >= 12 else outer)
        self.assertEqual(stacks[4], outer)  # after its end

    def check_greenlets(self, native, stacks):
        for mib, name in {8: "producer", 16: "producer", 32: "consumer"}.items():
            # All Python frames of a greenlet are its own; the C stack below belongs to others.
            self.assertEqual(stacks[mib], [(True, name), (False, CUT)][: 2 if native == "full" else 1])

    def check(self, python, native):
        packages = python_test.interpreters.with_packages(python)["PYTHONPATH"]  # greenlet
        done = self.run_python(python.path, str(PROGRAM), GPUMEMSHIM_NATIVE=native, PYTHONPATH=packages)
        self.assertEqual(done.returncode, 0, done.stderr)
        stacks = self.stacks()
        if native == "cut":
            self.check_recursion(stacks[1])
            self.check_sub_interpreter(python.minor, stacks)
        if done.stdout == "greenlets\n":
            self.check_greenlets(native, stacks)
        return done.stdout.strip()

    def test_each_interpreter(self):
        for python in python_test.PYTHONS:
            for native in ("cut", "full"):
                with self.subTest(python=python.path, native=native):
                    for trace in self.traces():
                        trace.unlink()
                    print(f"  {python.path} ({native}): CPython {python.version}, {self.check(python, native)}", flush=True)
        print("  not found here, so not tested:", ", ".join(python_test.interpreters.absent(python_test.PYTHONS)) or "none")


if __name__ == "__main__":
    hosts_test.main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs whose objects run code when they are asked something: under the recorder their output, exit code and calls of the driver are those without
it, and what can be named is named.

    python tests/e2e/hostile_test.py --build build/release
"""

import csv
import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "hostile.py"
TOGETHER = ("methods", "attributes", "own_dictionary", "metaclasses", "containers", "optimizers", "tensors", "modes", "endless", "kinds", "threads", "asked")
ALONE = ("empty_builtins", "deep", "names_in_builtins", "odd_modules", "trace_function", "profile_function", "audit_hook", "audit_hook_against_compile", "small_switch_interval")


class HostileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-hostile-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments, prefix=(), **more):
        environment = {**truth.environment_of(truth.Case("none"), SETUP), "PYTHONWARNINGS": "ignore", **more}
        done = subprocess.run([*prefix, *SETUP.command(PROGRAM), *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SETUP.timeout_s, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def calls(self, log):
        """Of the driver. Addresses of host memory are the kernel's to choose."""
        with open(self.folder / log, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        return [(row["api"], row["kind"], row["device"], row["device"] != "-1" and row["address"], row["size"], row["result"]) for row in rows]

    def check(self, cases, bare_output, bare_log):
        """Recorded, as the bare run was. The report and its modules."""
        trace = self.folder / "run.gmtrace"
        output = self.run_program(*cases, prefix=SETUP.recording(trace), SIMCUDA_LOG="recorded.log")
        self.assertEqual(json.loads(output), json.loads(bare_output))
        calls = self.calls("recorded.log")
        self.assertEqual(calls, self.calls(bare_log))
        self.assertGreater(len(calls), 2)
        return truth.report(SETUP, trace), json.loads(truth.run([SETUP.gpumem, "modules", "--json", str(trace)], SETUP))["modules"]

    def test_objects(self):
        report, modules = self.check(TOGETHER, self.run_program(*TOGETHER, SIMCUDA_LOG="bare.log"), "bare.log")
        self.assertLessEqual({"Hostile", "Counted", "Hidden", "Odd", "Calls", "Sequential"}, {module["root_class"] for module in modules})
        failed = report["process"]["versions"].get("python_helper", "")
        self.assertRegex(failed, r"^left out: (a model has modules too deep|tensors of a class)")  # of endless and tensors; nothing else failed
        self.assertNotIn("switched off", failed)
        print(f"  {failed}", flush=True)

    def test_processes(self):
        self.run_program("--apart", *ALONE)  # without a recorder, for which a forked process may be another
        for case in ALONE:
            with self.subTest(case=case):
                report, _ = self.check([case], (self.folder / f"{case}.out").read_text(), f"{case}.log")
                failed = report["process"]["versions"].get("python_helper")
                if case == "audit_hook_against_compile":
                    self.assertEqual(failed, "it does not run in this Python")
                elif case != "deep":
                    self.assertIsNone(failed)


if __name__ == "__main__":
    truth.run_tests(globals())

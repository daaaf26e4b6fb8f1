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
    def run_cases(self, folder, recorded, cases):
        """(exit code, output, errors, calls of the driver)"""
        log = folder / f"{recorded}.log"
        command = SETUP.command(PROGRAM)
        if recorded:
            command = SETUP.recording(folder / "run.gmtrace", *command)
        environment = {**truth.environment_of(truth.Case("none"), SETUP), "SIMCUDA_LOG": str(log), "PYTHONWARNINGS": "ignore"}
        done = subprocess.run([*command, *cases], env=environment, capture_output=True, text=True, timeout=SETUP.timeout_s, stdin=subprocess.DEVNULL)
        with open(log, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        # Addresses of host memory are the kernel's to choose.
        calls = [(row["api"], row["kind"], row["device"], row["device"] != "-1" and row["address"], row["size"], row["result"]) for row in rows]
        return done.returncode, done.stdout, calls, done.stderr

    def check(self, *cases):
        with tempfile.TemporaryDirectory(prefix="gpumem-hostile-") as folder:
            folder = pathlib.Path(folder)
            bare, recorded = (self.run_cases(folder, recorded, cases) for recorded in (False, True))
            self.assertEqual(bare[0], 0, bare[3])
            self.assertEqual(recorded[0], 0, recorded[3])
            self.assertEqual(json.loads(recorded[1]), json.loads(bare[1]))
            self.assertEqual(recorded[2], bare[2])
            modules = json.loads(truth.run([SETUP.gpumem, "modules", "--json", str(folder / "run.gmtrace")], SETUP))["modules"]
            return truth.report(SETUP, folder / "run.gmtrace"), modules

    def test_objects(self):
        report, modules = self.check(*TOGETHER)
        self.assertLessEqual({"Hostile", "Counted", "Hidden", "Odd", "Calls", "Sequential"}, {module["root_class"] for module in modules})
        failed = report["process"]["versions"].get("python_helper", "")
        self.assertRegex(failed, r"^left out: (a model has modules too deep|tensors of a class)")  # of endless and tensors; nothing else failed
        self.assertNotIn("switched off", failed)
        print(f"  {failed}", flush=True)

    def test_processes(self):
        for case in ALONE:
            with self.subTest(case=case):
                report, _ = self.check(case)
                failed = report["process"]["versions"].get("python_helper")
                if case == "audit_hook_against_compile":
                    self.assertEqual(failed, "it does not run in this Python")
                elif case != "deep":
                    self.assertIsNone(failed)


if __name__ == "__main__":
    truth.run_tests(globals())

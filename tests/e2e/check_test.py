# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim check` decides by exit code, in every format, on a trace of a program that leaks 32 MiB a step; `gpumemshim diff --table` shows the same numbers.

    python tests/e2e/check_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import diff_pairs
import truth

SETUP = None


class CheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-check-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.trace = diff_pairs.record(SETUP, cls.folder, diff_pairs.EVERY_DAY["leaked_tensor"], True, "--batch", "4", "--length", "256", "--steps", "8")
        cls.peak = truth.report(SETUP, cls.trace)["devices"][0]["peak"]["allocated_bytes"]

    def gpumem(self, *arguments, code):
        done = subprocess.run([SETUP.gpumem, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_limits_decide_the_exit_code(self):
        self.gpumem("check", self.trace, "--max-peak", self.peak, code=0)
        self.assertIn("failed     max_peak", self.gpumem("check", self.trace, "--max-peak", self.peak - 1, code=1))
        self.assertIn("failed     max_leak", self.gpumem("check", self.trace, "--max-leak", "31MiB/step", code=1))
        self.gpumem("check", self.trace, "--max-leak", "33MiB/step", code=0)
        self.gpumem("check", self.trace, code=2)
        self.gpumem("check", self.trace, "--limits", self.folder / "absent.yaml", code=2)

    def test_a_damaged_trace_never_passes(self):
        damaged = self.folder / "damaged.trace"
        damaged.write_bytes(self.trace.read_bytes()[:-20000])
        self.assertIn("unknown    max_peak", self.gpumem("check", damaged, "--max-peak", "1TiB", code=7))
        # What was read before the cut was allocated, whatever followed.
        self.assertIn("failed     max_peak", self.gpumem("check", damaged, "--max-peak", "1", code=1))

    def test_what_follows_a_gap_decides_nothing(self):
        whole = self.trace.read_bytes()
        middle = len(whole) // 4
        damaged = self.folder / "gap.trace"
        damaged.write_bytes(whole[:middle] + b"\0" * 4000 + whole[middle + 4000 :])
        output = self.gpumem("check", damaged, "--max-peak", self.peak - 1, "--max-leak", "1", code=7)
        self.assertIn("unknown    max_peak", output)
        self.assertIn("unknown    max_leak", output)

    def test_a_baseline_and_formats(self):
        limits = self.folder / "budget.yaml"
        limits.write_text("baseline: run.gmtrace\ntolerance: 2%\n")
        self.gpumem("check", self.trace, "--limits", limits, code=0)
        output = self.gpumem("check", self.trace, "--limits", limits, "--max-peak", "1", "--format", "junit", code=1)
        suite = xml.etree.ElementTree.fromstring(output)[0]
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("errors")), ("3", "1", "0"))
        self.assertEqual([case.get("name") for case in suite if case.find("failure") is not None], ["max_peak"])
        annotations = self.gpumem("check", self.trace, "--max-peak", "1", "--format", "github", code=1)
        self.assertTrue(annotations.startswith("::error title=gpumemshim max_peak failed::"), annotations)

    def test_compare_marks_the_best_and_says_documented_keys(self):
        documented = (truth.ROOT / "docs" / "json.md").read_text()
        compared = json.loads(self.gpumem("diff", "--table", self.trace, self.trace, "--json", code=0))
        self.assertEqual([run["peak_allocated_bytes"] for run in compared["runs"]], [self.peak] * 2)
        self.assertTrue(all(abs(run["growth_per_step"] - (32 << 20)) < (1 << 20) for run in compared["runs"]), compared)
        checked = json.loads(self.gpumem("check", self.trace, "--max-peak", "1TiB", "--json", code=0))
        keys = {*compared, *compared["runs"][0], *checked, *checked["checks"][0]}
        self.assertEqual([key for key in keys if f"`{key}`" not in documented], [])
        self.assertIn("not judged" if compared["runs"][0]["growth_per_step"] is None else "32", self.gpumem("diff", "--table", self.trace, code=0))


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Computing the values that decide (planner/launch/values.py) changes nothing but values: programs/dispatched.py says what PyTorch's dispatcher did, with and without.

    python tests/e2e/plan_values_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "dispatched.py"


class DispatchTest(unittest.TestCase):
    def facts(self, values):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-values-") as folder:
            facts = pathlib.Path(folder) / "facts.json"
            command = [SETUP.gpumem, "plan", "--json", "--no-what-if", "--steps", "all", "--values", values, "-o", f"{folder}/", "--", SETUP.python, str(PROGRAM)]
            done = subprocess.run(command, env=truth.environment_of_plans(SETUP, FACTS=str(facts)), capture_output=True, text=True, timeout=250, check=False)
            self.assertTrue(facts.exists(), done.stdout[-2000:] + done.stderr[-2000:])
            self.assertIsNone(json.loads(done.stdout)["processes"][0]["values_failed"])
            return json.loads(facts.read_text())

    def test_the_dispatcher_does_the_same(self):
        with_values, without = self.facts("computed"), self.facts("none")
        self.assertGreater(len(without), 15)
        for case, facts in without.items():
            with self.subTest(case=case):
                self.assertNotIsInstance(facts, str, "the case itself failed")
                self.assertEqual(with_values[case], facts)


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Results are bit for bit those without the recorder, and torch.compile makes the same graphs.

    python tests/e2e/undisturbed_test.py --build build/release
"""

import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "undisturbed.py"


class UndisturbedTest(unittest.TestCase):
    def test_results_and_graphs(self):
        environment = truth.environment_of(truth.Case("none"), SETUP)
        environment.update(PYTHONWARNINGS="ignore")
        bare = truth.run(SETUP.command(PROGRAM), SETUP, environment)
        self.assertIn('"', bare)
        with tempfile.TemporaryDirectory(prefix="gpumem-undisturbed-") as folder:
            trace = pathlib.Path(folder) / "run.gmtrace"
            recorded = truth.run(SETUP.recording(trace, *SETUP.command(PROGRAM)), SETUP, environment)
            self.assertEqual(recorded, bare)
            report = truth.report(SETUP, trace)
        self.assertGreater(report["events"]["torch"], 20)
        # What failed in the helper was the helper's business, and is said.
        self.assertEqual(report["process"]["versions"]["python_helper"], "ValueError in named_modules: modules of this one have no names")
        self.assertEqual(len([note for note in report["notes"] if "modules of this one have no names" in note]), 1)


if __name__ == "__main__":
    truth.run_tests(globals())

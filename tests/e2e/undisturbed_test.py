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
            self.assertGreater(truth.report(SETUP, trace)["events"]["torch"], 20)


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Results are bit for bit those without the recorder, and torch.compile makes the same graphs; nothing is asked of a Python that has ended.

    python tests/e2e/undisturbed_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import time
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
        with tempfile.TemporaryDirectory(prefix="gpumemshim-undisturbed-") as folder:
            trace = pathlib.Path(folder) / "run.gmtrace"
            recorded = truth.run(SETUP.recording(trace, *SETUP.command(PROGRAM)), SETUP, environment)
            self.assertEqual(recorded, bare)
            report = truth.report(SETUP, trace)
            modules = json.loads(truth.run([SETUP.gpumem, "modules", "--json", str(trace)], SETUP))["modules"]
        self.assertGreater(report["events"]["torch"], 20)
        # One whose methods fail is named too: none of them is called.
        self.assertNotIn("python_helper", report["process"]["versions"])
        self.assertIn("Unnamable", {module["root_class"] for module in modules})

    def test_a_process_that_outlives_its_python(self):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-undisturbed-") as folder:
            trace = pathlib.Path(folder) / "run.gmtrace"
            command = SETUP.recording(trace, *SETUP.command(truth.PROGRAMS / "after_python.py"))
            process = subprocess.Popen(command, env=truth.environment_of(truth.Case("none"), SETUP), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            while process.poll() is None and not (trace.exists() and self.has_torch(trace)):
                time.sleep(0.05)  # the recorder's thread has not come to the event yet
            process.communicate(b"\n")
            self.assertEqual(process.returncode, 0)
            self.assertTrue(self.has_torch(trace))

    def has_torch(self, trace):
        """Of the file alone: what the recorder's thread has written."""
        done = subprocess.run([SETUP.gpumem, "export", "events", "--layer", "torch", str(trace)], capture_output=True, text=True, check=False)
        return " torch alloc " in done.stdout


if __name__ == "__main__":
    truth.run_tests(globals())

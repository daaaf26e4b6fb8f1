# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim simulate`: the program finds the devices that were asked for, ends as it would by itself, and is recorded where it is run so.

    python tests/e2e/simulate_test.py --build build/release
"""

import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

import truth

SETUP = None
DEVICES = """
import torch
one = torch.cuda.get_device_properties(0)
print(torch.cuda.device_count(), one.total_memory >> 20, one.name, sep="|")
"""
ALLOCATES = "import torch; kept = torch.empty(64 << 20, dtype=torch.uint8, device='cuda')"


class SimulateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-simulate-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in truth.environment_of(truth.Case("none"), SETUP).items() if not name.startswith("SIMCUDA_")}

    def simulate(self, *words, **more):
        return subprocess.run([SETUP.gpumem, "simulate", *map(str, words)], cwd=self.folder, env={**self.environment, **more}, capture_output=True, text=True, timeout=SETUP.timeout_s, check=False)

    def devices(self, *flags, **more):
        done = self.simulate(*flags, "--", SETUP.python, "-c", DEVICES, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip().split("|")

    def test_devices(self):
        self.assertEqual(self.devices()[0], "1")
        self.assertEqual(self.devices("--device-count", 2, "--memory", "24GiB")[:2], ["2", str(24 << 10)])
        self.assertIn("4090", self.devices("--device", "rtx4090")[2])
        self.assertEqual(self.devices(SIMCUDA_MEM_MB="4096", SIMCUDA_DEVICES="3")[:2], ["3", "4096"])

    def test_ends_as_the_program_does(self):
        self.assertEqual(self.simulate("--", SETUP.python, "-c", "raise SystemExit(7)").returncode, 7)
        self.assertEqual(self.simulate("--", SETUP.python, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)").returncode, -signal.SIGTERM)

    def test_what_cannot_be_run(self):
        (self.folder / "data").write_text("1")
        cases = (
            (("--", "./absent"), 127, "absent"), (("--", "./data"), 126, "data"), ((), 2, "gpumemshim simulate -- python train.py"),
            (("--device", "abacus", "--", "true"), 3, "abacus"), (("--device-count", "0", "--", "true"), 2, "--device-count"),
        )  # fmt: skip
        for words, code, text in cases:
            with self.subTest(words=words):
                done = self.simulate(*words)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(text, done.stderr)
                self.assertIn("gpumemshim", done.stderr)
                self.assertNotIn("simcuda/run:", done.stderr)
        done = self.simulate("--", "true", GPUMEMSHIM_SIMCUDA="/nowhere")
        self.assertEqual((done.returncode, "GPUMEMSHIM_SIMCUDA" in done.stderr), (3, True), done.stderr)
        done = self.simulate("--", "true", PATH="/nowhere")
        self.assertEqual((done.returncode, "python3" in done.stderr), (3, True), done.stderr)

    def test_recorded(self):
        trace = self.folder / "run.gmtrace"
        command = [SETUP.gpumem, "run", "-q", "-o", str(trace), "--", SETUP.gpumem, "simulate", "--", SETUP.python, "-c", ALLOCATES]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SETUP.timeout_s, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (device,) = json.loads(truth.run([SETUP.gpumem, "report", "--json", str(trace)], SETUP))["devices"]
        self.assertEqual(device["peak"]["allocated_bytes"], 64 << 20)


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A real training under the recorder: killed in the middle, with worker processes, with a script's lines in the answer.

    python tests/e2e/training_test.py --build build/release
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import truth

SETUP = None
EXAMPLE = truth.ROOT / "examples" / "train_gpt.py"

WORKERS = """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    model = torch.nn.Linear(64, 64).cuda()
    data = DataLoader(TensorDataset(torch.randn(64, 64)), batch_size=8, num_workers=2)
    for (batch,) in data:
        model(batch.cuda()).sum().backward()
"""


class TrainingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-training-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self):
        environment = truth.environment_of(truth.Case("none"), SETUP)
        environment["GPUMEMSHIM_RING_DIRECTORY"] = str(self.folder)  # the killed one's would stay in /dev/shm
        return environment

    def report(self, trace, *options):
        return json.loads(truth.run([SETUP.gpumem, "report", "--json", *options, str(trace)], SETUP))

    def recorded(self, trace, *command):
        return SETUP.recording(trace, *SETUP.command(command[0]), *command[1:])

    def events_in(self, trace):
        try:
            return self.report(trace)["events"]["torch"]
        except truth.Failure:
            return 0

    def test_killed_in_the_middle(self):
        trace = self.folder / "killed.gmtrace"
        training = subprocess.Popen(
            self.recorded(trace, EXAMPLE, "--steps", "100000"), env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + 120
        while self.events_in(trace) < 5000:
            self.assertIsNone(training.poll(), "the training ended by itself")
            self.assertLess(time.monotonic(), deadline, "no events arrived")
            time.sleep(0.2)
        before = self.events_in(trace)
        os.killpg(training.pid, signal.SIGKILL)
        training.wait()
        self.wait_for_the_end_of(self.report(trace)["process"]["pid"], deadline)  # `gpumemshim run` may go before it
        answer = self.report(trace)
        self.assertFalse(answer["complete"])
        self.assertGreaterEqual(answer["events"]["torch"], before)
        self.assertGreater(answer["devices"][0]["peak"]["allocated_bytes"], 100 << 20)
        self.assertIn("The end is missing", truth.run([SETUP.gpumem, "report", str(trace)], SETUP))

    def wait_for_the_end_of(self, pid, deadline):
        """Until the process is gone, or waits for somebody to ask how it ended."""
        state = pathlib.Path(f"/proc/{pid}/stat")
        while True:
            try:
                if state.read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                    return
            except OSError:
                return
            self.assertLess(time.monotonic(), deadline, "a killed process lives")
            time.sleep(0.02)

    def test_the_peak_names_the_scripts_lines(self):
        trace = self.folder / "named.gmtrace"
        truth.run(self.recorded(trace, EXAMPLE, "--steps", "2"), SETUP, self.environment())
        peak = json.loads(truth.run([SETUP.gpumem, "peak", "--json", str(trace)], SETUP))
        source = EXAMPLE.read_text().splitlines()
        lines = [frame for stack in peak["stacks"] for frame in stack["frames"] if frame["file"] and frame["file"].endswith("train_gpt.py")]
        self.assertGreater(len(lines), 10)
        for frame in lines:
            self.assertTrue(1 <= frame["line"] <= len(source), frame)
        self.assertTrue(any("(" in source[frame["line"] - 1] for frame in lines))
        self.assertEqual(sum(stack["bytes"] for stack in peak["stacks"]), self.report(trace)["devices"][0]["peak"]["allocated_bytes"])

    def test_a_program_without_cuda_leaves_no_trace(self):
        script = self.folder / "host_only.py"
        script.write_text("import torch\ntorch.cuda.is_available()\nlayer = torch.nn.Linear(4, 4)\nlayer(torch.ones(2, 4)).sum().backward()\n")
        done = subprocess.run(
            [SETUP.gpumem, "run", "--", *SETUP.command(script)], cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.folder.glob("*.gmtrace")), [], done.stderr)

    def test_workers_leave_no_traces(self):
        script = self.folder / "workers.py"
        script.write_text(WORKERS)
        done = subprocess.run(
            [SETUP.gpumem, "run", "--", *SETUP.command(script)], cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        traces = list(self.folder.glob("*.gmtrace"))
        self.assertEqual(len(traces), 1, traces)
        self.assertRegex(traces[0].name, r"^gpumemshim\.workers\.\d+\.gmtrace$")
        self.assertEqual(sum(line.startswith("gpumemshim:") for line in done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(self.report(traces[0])["complete"])


if __name__ == "__main__":
    truth.run_tests(globals())

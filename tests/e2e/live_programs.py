# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A program that trains a step whenever the test says so, for tests of what is shown while a program runs.

    class MyTest(live_programs.LiveProgramTest):
        def setUp(self):
            self.setup = SETUP
            super().setUp()

        def test_it(self):
            program = self.start()
            self.step(program, 3)
            self.finish(program)
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

WAIT_S = 600  # stops what would never come

# Trains, a step for each line that it is given; a block stays from each.
PROGRAM = """
import sys, torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
def remember():
    kept.append(torch.empty(3 << 20, dtype=torch.uint8, device="cuda"))
print("ready", flush=True)
for line in sys.stdin:
    optimizer.zero_grad(set_to_none=True)
    model(torch.randn(64, 256, device="cuda")).square().mean().backward()
    optimizer.step()
    remember()
    print("step", flush=True)
"""


class LiveProgramTest(unittest.TestCase):
    setup = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="live-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**truth.environment_of(truth.Case("none"), self.setup), "XDG_RUNTIME_DIR": str(self.folder)}
        (self.folder / "train.py").write_text(PROGRAM)

    def start(self, trace="run.gmtrace", stderr=None, **more):
        command = self.setup.recording(self.folder / trace, *self.setup.command(self.folder / "train.py"))
        program = subprocess.Popen(command, env={**self.environment, **more}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdin.close)
        self.assertEqual(program.stdout.readline(), "ready\n")
        return program

    def step(self, program, count=1):
        for _ in range(count):
            program.stdin.write("\n")
            program.stdin.flush()
            self.assertEqual(program.stdout.readline(), "step\n")

    def finish(self, program):
        program.stdin.close()
        program.wait(timeout=WAIT_S)

    def once(self, *arguments):
        """What `gpumemshim live --json` says."""
        done = subprocess.run([self.setup.gpumem, "live", "--json", *map(str, arguments)], env=self.environment, capture_output=True, text=True, timeout=WAIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def pid_of(self, trace="run.gmtrace"):
        return self.once(self.folder / trace)["processes"][0]["pid"]

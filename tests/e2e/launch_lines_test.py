# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim plan` of launch lines as people type them: as many GPUs as ranks start on a machine; of several machines one rank, to the byte what --world-size says.

    python tests/e2e/launch_lines_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = [str(truth.PROGRAMS / "launched.py")]
ONCE = ("--values", "none", "--workspaces", "none", "--no-what-if")
RARER = ("test_all_ranks_of_a_machine",)
TORCHRUN = ["-m", "torch.distributed.run"]


class LaunchLines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-launch-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()

    def run_plan(self, command, *options):
        environment = truth.environment_of_plans(SETUP, TMPDIR=str(self.folder / "tmp"), OMP_NUM_THREADS="1")
        words = [SETUP.gpumem, "plan", *ONCE, *options, "--", *command]
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SETUP.timeout_s, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def plan(self, command, *options):
        return json.loads(self.run_plan(command, "--json", *options))

    def test_all_ranks_of_a_machine(self):
        plan = self.plan([SETUP.python, *TORCHRUN, "--nproc-per-node=2", *PROGRAM])
        self.assertEqual(plan["device"]["count"], 2)
        self.assertEqual({process["rank"] for process in plan["processes"]}, {0, 1})

    def test_several_machines(self):
        """No other machine is asked for, whatever the line says of how to meet."""
        line = [SETUP.python, *TORCHRUN, "--nnodes", "4", "--nproc-per-node=8", "--node-rank", "2", "--rdzv-backend=c10d", "--rdzv-endpoint=nowhere.invalid:29400"]
        plan = self.plan([*line, *PROGRAM])
        alone = self.plan([SETUP.python, *PROGRAM], "--rank", "16", "--world-size", "32")
        self.assertEqual(plan["processes"][0]["rank"], 16)
        self.assertEqual(plan["device"]["count"], 8)
        self.assertEqual(plan["peak"]["allocated_bytes"], alone["peak"]["allocated_bytes"])
        self.assertEqual(plan["peak"]["reserved_bytes"], alone["peak"]["reserved_bytes"])

    def test_it_is_said(self):
        text = self.run_plan([SETUP.python, *TORCHRUN, "--nnodes=2", "--nproc-per-node=4", *PROGRAM])
        self.assertIn("one process simulated rank 0 of 8, of those that torch.distributed.run would start", " ".join(text.split()))


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim diff PLAN RUN` names the one thing in which a run was not what its plan was for, in its first sentence. Runs are on simulated CUDA, too.

    python tests/e2e/plan_against_run_test.py --build build/release [--full]
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "against.py"
MIB = 1 << 20
RARER = ("test_loaded_code", "test_the_other_way_round")


class AgainstItsPlan(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-against-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.runs = pathlib.Path(folder.name), 0
        cls.plan = cls.folder / "plan.gmtrace"
        command = [SETUP.gpumem, "plan", "--no-what-if", "--device", "H100", "-o", str(cls.plan), "--", SETUP.python, str(PROGRAM)]
        truth.run(command, SETUP, truth.environment_of_plans(SETUP))

    def diff(self, *arguments, swapped=False, **environment):
        """What it says of a run with these arguments and variables."""
        AgainstItsPlan.runs += 1
        run = self.folder / f"run{self.runs}.gmtrace"
        words = [SETUP.gpumem, "simulate", "--device", "H100", "--", SETUP.python, str(PROGRAM), *arguments]
        truth.run(SETUP.recording(run, *words), SETUP, {**truth.environment_of_plans(SETUP), **environment})
        traces = [run, self.plan] if swapped else [self.plan, run]
        return json.loads(truth.run([SETUP.gpumem, "diff", "--json", *map(str, traces)], SETUP))

    def names(self, part, answer):
        """The sentence names that part before any other; its parts add up to what the sentence says."""
        self.assertRegex(answer["headline"], f"^the run needed .* than its plan says: {part} [+-]")
        own = [row for row in answer["plan_parts"] if row["own"] and row["known"]]
        self.assertEqual(own[0]["name"], part)
        return own[0]

    def test_as_planned(self):
        answer = self.diff()
        self.assertRegex(answer["headline"], "^the run needed what its plan says, [0-9.]+ [GM]iB$")
        self.assertTrue(all(abs(row["delta_bytes"]) < MIB for row in answer["plan_parts"]), answer["plan_parts"])

    def test_context(self):
        self.assertGreater(self.names("CUDA context and loaded code", self.diff(SIMCUDA_CTX_MB="900"))["delta_bytes"], 100 * MIB)

    def test_loaded_code(self):
        self.names("CUDA context and loaded code", self.diff(SIMCUDA_MODULE_KB="65536"))

    def test_workspaces(self):
        self.assertGreater(self.names("workspaces", self.diff(SIMCUDA_CUDNN_WS="512M"))["delta_bytes"], 200 * MIB)

    def test_batch_and_data(self):
        row = self.names("batch and data", self.diff("--batch-size", "64"))
        self.assertIn("[64, 3, 128, 128] instead of [16, 3, 128, 128]", row["why"])

    def test_allocator_settings(self):
        row = self.names("allocator settings", self.diff(PYTORCH_CUDA_ALLOC_CONF="roundup_power2_divisions:1,garbage_collection_threshold:0.9,max_split_size_mb:21"))
        self.assertIn("max_split_size_mb:21 instead of none", row["why"])

    def test_other_processes(self):
        answer = self.diff(SIMCUDA_OTHERS_MB="4096")
        self.assertRegex(answer["headline"], r"^the run needed what its plan says, .*: other processes on the GPU \+")

    def test_the_other_way_round(self):
        self.names("batch and data", self.diff("--batch-size", "64", swapped=True))


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

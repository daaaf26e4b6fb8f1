# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What `gpumem plan --explain` measures by changing a program from outside is what the program needs with the same change written into it.

    python tests/e2e/plan_changes_test.py --build build/release [--full]
"""

import importlib.util
import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "changed.py"
MIB = 1 << 20
RARER = ("test_the_rest_needs_what_it_needs_by_hand", "test_as_few_blocks_as_fit", "test_what_cannot_be_changed_says_why")
"""Tests of --full: each run takes seconds."""


class Changed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumem-plan-changes-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()

    def plan(self, *words, options=(), expected=0):
        command = [SETUP.gpumem, "plan", "--json", *options, "--", SETUP.python, *map(str, words)]
        environment = truth.environment_of_plans(SETUP, TMPDIR=str(self.folder / "tmp"))
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, expected, done.stdout[:2500] + done.stderr)
        return json.loads(done.stdout)

    def by_hand(self, change):
        return self.plan(PROGRAM, "--by-hand", change, options=["--no-what-if"])["peak"]["device_bytes"]

    def explain(self, *words, options=()):
        return self.plan(*words, options=["--explain", *options])["explain"]

    def rows(self, explained):
        return {row["changes"][0]: row for row in explained["ways"] + explained["without_use"]}


class ByHand(Changed):
    def check(self, changes):
        explained = self.explain(PROGRAM)
        rows = self.rows(explained)
        self.assertTrue(explained["reached"])
        self.assertLessEqual(explained["runs"], 9)
        for change in changes:
            with self.subTest(change):
                self.assertEqual(rows[change]["need_bytes"], self.by_hand(change))
                self.assertGreater(rows[change]["applied"], 0)
        return explained

    def test_what_is_computed_again_needs_what_it_needs_by_hand(self):
        explained = self.check(("checkpointing", "chunked_loss"))
        self.assertEqual(self.rows(explained)["checkpointing"]["text"], "checkpoint 4 of 4 blocks")
        costs = [row["cost"] for row in explained["ways"]]
        self.assertEqual(costs, sorted(costs, key=["nothing", "recompute", "pieces", "transfers", "rounding"].index))
        self.assertTrue(all(explained["need_bytes"] - row["need_bytes"] >= 0.005 * explained["need_bytes"] for row in explained["ways"]))

    def test_the_rest_needs_what_it_needs_by_hand(self):
        eight_bit = ("8bit_states",) if importlib.util.find_spec("bitsandbytes") else ()
        self.check(("fused", "foreach", "accumulate", "offload", "bf16_states", *eight_bit))


class Goals(Changed):
    def test_as_few_blocks_as_fit(self):
        """A goal between what 2 and 1 of 4 blocks need, with whatever else is open."""
        two, one = self.by_hand("checkpointing:2"), self.by_hand("checkpointing:1")
        self.assertLess(two, one)


def main():
    global SETUP
    SETUP = truth.setup(__doc__)
    truth.run_tests(SETUP, RARER)

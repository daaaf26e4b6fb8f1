# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What `gpumemshim plan --explain` measures by changing a program from outside is what the program needs with the same change written into it.

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
PROGRAM, OTHERS = truth.PROGRAMS / "changed.py", truth.PROGRAMS / "changed_others.py"
MIB = 1 << 20
RARER = ("test_the_rest_needs_what_it_needs_by_hand", "test_as_few_blocks_as_fit", "test_two_changes_together", "test_a_goal_that_nothing_reaches", "test_inference",
         "test_two_optimizers", "test_without_modules", "test_torch_compile", "test_convolutions", "test_what_recomputes_already", "test_batch_norm", "test_what_breaks_the_program",
         "test_what_the_program_handles")
"""Tests of --full: each run takes seconds."""


class Changed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-plan-changes-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()

    def plan(self, *words, options=()):
        command = [SETUP.gpumem, "plan", "--json", *options, "--", SETUP.python, *map(str, words)]
        environment = truth.environment_of_plans(SETUP, TMPDIR=str(self.folder / "tmp"))
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
        self.assertIn(done.returncode, (0, 6), done.stdout[:2500] + done.stderr)
        self.assertEqual(list((self.folder / "tmp").glob("gpumemshim*")), [], "nothing is left in the folder for temporary files")
        return json.loads(done.stdout)

    def by_hand(self, change):
        return self.plan(PROGRAM, "--by-hand", change, options=["--no-what-if"])["peak"]["device_bytes"]

    def explain(self, *words, options=()):
        return self.plan(*words, options=["--explain", *options])["explain"]

    def rows(self, explained):
        return {row["changes"][0]: row for row in explained["ways"] + explained["without_use"]}

    def reasons(self, explained):
        return {row["changes"][0]: row["why"] for row in explained["not_possible"]}


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
                self.assertEqual(bool(rows[change]["other_results"]), change in ("bf16_states", "8bit_states"))
        return explained

    def test_what_is_computed_again_needs_what_it_needs_by_hand(self):
        explained = self.check(("checkpointing", "chunked_loss"))
        self.assertEqual(self.rows(explained)["checkpointing"]["text"], "checkpoint 4 of 4 blocks")
        costs = [row["cost"] for row in explained["ways"]]
        self.assertEqual(costs, sorted(costs, key=["nothing", "time", "recompute", "pieces", "transfers", "rounding"].index))
        self.assertTrue(all(explained["need_bytes"] - row["need_bytes"] >= 0.005 * explained["need_bytes"] for row in explained["ways"]))

    def test_the_rest_needs_what_it_needs_by_hand(self):
        eight_bit = ("8bit_states",) if importlib.util.find_spec("bitsandbytes") else ()
        if not eight_bit:
            print("left out: 8bit_states, because bitsandbytes is not installed")
        self.check(("fused", "foreach", "accumulate", "offload", "bf16_states", *eight_bit))


class Goals(Changed):
    def test_as_few_blocks_as_fit(self):
        """A goal between what 4 and 3 of 6 blocks need, written into the program by hand."""
        four, three = (self.plan(OTHERS, "recomputed", count, options=["--no-what-if"])["peak"]["device_bytes"] for count in (4, 3))
        self.assertLess(four, three)
        opened = self.explain(OTHERS, "recomputed", 0)["open_bytes"]
        fit = self.explain(OTHERS, "recomputed", 0, options=["--fit", str(opened + (three + four) // 2)])["to_fit"]
        self.assertEqual(fit["changes"], ["checkpointing:4"])
        self.assertEqual(fit["need_bytes"], four)

    def test_two_changes_together(self):
        """A goal that no change alone reaches, and several together do."""
        whole = self.explain(PROGRAM)
        least = min(row["need_bytes"] for row in whole["ways"])
        explained = self.explain(PROGRAM, options=["--fit", str(whole["open_bytes"] + least - MIB)])
        self.assertGreater(len(explained["to_fit"]["changes"]), 1)
        self.assertLess(explained["to_fit"]["need_bytes"], least)
        self.assertLessEqual(explained["runs"], explained["max_runs"])

    def test_a_goal_that_nothing_reaches(self):
        explained = self.explain(PROGRAM, options=["--fit", "300MiB"])
        self.assertIsNone(explained["to_fit"])
        self.assertFalse(explained["reached"])
        self.assertGreater(len(explained["least"]["changes"]), 1)
        self.assertLess(explained["least"]["need_bytes"], min(row["need_bytes"] for row in explained["ways"]))

    def test_a_goal_without_explain_is_an_error(self):
        done = subprocess.run([SETUP.gpumem, "plan", "--fit", "1GiB", "--", "true"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--explain", done.stderr)


class Others(Changed):
    """What does not apply, or breaks the program, is not a saving."""

    def test_what_breaks_the_program(self):
        explained = self.explain(OTHERS, "breaks")
        self.assertEqual(self.reasons(explained)["checkpointing"], "the program fails with it: RuntimeError: this block is computed once a step")
        self.assertNotIn("checkpointing", self.rows(explained))

    def test_what_the_program_handles(self):
        explained = self.explain(OTHERS, "handles")
        self.assertRegex(self.reasons(explained)["checkpointing"], "the program makes 0 steps with it")
        self.assertNotIn("checkpointing", self.rows(explained))

    def test_inference(self):
        explained = self.explain(OTHERS, "inference")
        self.assertEqual(explained["runs"], 3)
        reasons = self.reasons(explained)
        self.assertEqual(reasons.pop("no_grad"), "the program computes without gradients already")
        self.assertEqual(reasons.pop("half_batch"), "the batch size is not an argument of the command, and of no DataLoader")
        self.assertEqual(set(reasons.values()), {"the program makes no step of an optimizer"})
        self.assertEqual(len(reasons), 8)

    def test_inference_with_gradients(self):
        """What keeps nothing for a backward pass needs what the same program needs under no_grad; in half the batch, of a DataLoader, too."""
        explained = self.explain(OTHERS, "forgetful")
        rows = self.rows(explained)
        self.assertEqual(rows["no_grad"]["need_bytes"], self.plan(OTHERS, "forgetful", 1, options=["--no-what-if"])["peak"]["device_bytes"])
        self.assertEqual(rows["half_batch"]["need_bytes"], self.plan(OTHERS, "forgetful", 0, 2048, options=["--no-what-if"])["peak"]["device_bytes"])
        self.assertIn("unknown", rows["half_batch"]["cost_text"])

    def test_convolutions(self):
        explained = self.explain(OTHERS, "convolutions")
        rows = self.rows(explained)
        self.assertEqual(rows["channels_last"]["cost"], "time")
        self.assertEqual(rows["channels_last"]["need_bytes"], self.plan(OTHERS, "convolutions", 1, options=["--no-what-if"])["peak"]["device_bytes"])

    def test_two_optimizers(self):
        explained = self.explain(OTHERS, "gan")
        rows = self.rows(explained)
        self.assertEqual((rows["8bit_states"]["applied"], rows["8bit_states"]["of"]), (1, 2))
        self.assertIn("SGD", rows["8bit_states"]["why"])
        self.assertEqual((rows["fused"]["applied"], rows["fused"]["of"]), (2, 2))
        self.assertEqual(rows["checkpointing"]["text"], "checkpoint 6 of 6 blocks")

    def test_without_modules(self):
        reasons = self.reasons(self.explain(OTHERS, "unrolled"))
        self.assertIn("no list of two or more blocks", reasons["checkpointing"])
        self.assertEqual(reasons["fused"], "AdamW is fused already")
        self.assertEqual(reasons["foreach"], "AdamW is fused")

    def test_torch_compile(self):
        rows = self.rows(self.explain(OTHERS, "compiled"))
        by_hand = self.plan(OTHERS, "compiled", 6, options=["--no-what-if"])["peak"]["device_bytes"]
        self.assertEqual(rows["checkpointing"]["need_bytes"], by_hand)
        self.assertIn("8bit_states", rows)

    def test_what_recomputes_already(self):
        self.assertEqual(self.reasons(self.explain(OTHERS, "recomputed"))["checkpointing"], "the program recomputes it already")

    def test_batch_norm(self):
        rows = self.rows(self.explain(OTHERS, "batch_norm"))
        self.assertIn("half the batch", rows["accumulate"]["other_results"])
        self.assertIn("running averages", rows["checkpointing"]["other_results"])


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a program says by the package python/gpumemshim is what the analyzer answers: names of tensors, snapshots, steps, stages, watched calls.
Without the recorder the same program runs alike.

    python tests/e2e/annotations_test.py --build build/release
"""

import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "annotations.py"
MIB = 1 << 20


class AnnotationsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-annotations-")
        cls.addClassCleanup(folder.cleanup)
        cls.trace = pathlib.Path(folder.name) / "annotations.gmtrace"
        cls.environment = truth.environment_of(truth.Case("none"), SETUP)
        output = truth.run(SETUP.recording(cls.trace, *SETUP.command(PROGRAM)), SETUP, cls.environment)
        cls.reported = json.loads(output.splitlines()[-1])

    def ask(self, *arguments):
        return json.loads(truth.run([SETUP.gpumem, *arguments, "--json", str(self.trace)], SETUP))

    def test_a_tensor_has_its_name(self):
        for moment in ("peak", "model on the GPU", "trained"):
            answer = self.ask("at", moment)
            self.assertEqual([(name["name"], name["bytes"], name["count"]) for name in answer["names"]], [("kv cache", 3 * MIB, 1)], moment)
            self.assertEqual([stack["bytes"] for stack in answer["stacks"] if stack["name"] == "kv cache"], [3 * MIB])
        text = truth.run([SETUP.gpumem, "at", "trained", str(self.trace)], SETUP)
        self.assertRegex(text, r"3 MiB .*kv cache")

    def test_snapshots_are_moments(self):
        report = self.ask("report")
        self.assertEqual([snapshot["name"] for snapshot in report["snapshots"]], ["model on the GPU", "trained"])
        self.assertEqual(report["snapshots_left_out"], 0)
        for snapshot, truth_bytes in zip(report["snapshots"], (self.reported["on the GPU"], self.reported["trained"])):
            self.assertEqual(snapshot["values"]["allocated_bytes"], truth_bytes)
            answer = self.ask("at", snapshot["name"])
            self.assertEqual((answer["values"], answer["categories"]), (snapshot["values"], snapshot["categories"]))
        self.assertGreater(report["snapshots"][1]["categories"]["optimizer_state"], report["snapshots"][1]["categories"]["parameter"])
        text = truth.run([SETUP.gpumem, "report", "--full", str(self.trace)], SETUP)
        self.assertIn("Snapshots on GPU 0", text)
        self.assertIn("model on the GPU", text)

    def test_steps_are_the_programs(self):
        answer = self.ask("steps")
        self.assertEqual((answer["counted_by"], [step["step"] for step in answer["steps"]]), ("marks", [1, 2, 3]))

    def test_a_mark_is_found_by_its_name(self):
        marks = [mark["text"] for mark in self.ask("timeline")["marks"] if mark["kind"] == "mark"]
        self.assertIn("stepped (number=0, loss=Tensor[])", marks)
        self.assertEqual(self.ask("at", "stepped")["step"], 1)

    def test_a_watched_call_tells_what_it_allocated(self):
        self.assertGreaterEqual(self.reported["watched"], 5 * MIB)
        self.assertEqual(self.reported["changes"], [["watched", self.reported["watched"], 0, ""]])
        marks = [mark["text"] for mark in self.ask("timeline")["marks"]]
        self.assertIn(f"watch watched (allocated={self.reported['watched']}, freed=0, grown={self.reported['watched']})", marks)

    def test_live_tensors_and_gradients(self):
        """The rest of what PyTorch has allocated is held by C++: workspaces."""
        self.assertLessEqual(sum((size + 511) // 512 * 512 for size, _ in self.reported["live"]), self.reported["trained"])
        self.assertIn([3 * MIB, []], self.reported["live"])  # a local variable
        self.assertIn([5 * MIB, ["the closure of main.<locals>.<lambda>.kept[0]"]], self.reported["live"])
        largest = {holders[0] for size, holders in self.reported["live"] if size == 4 * MIB}
        self.assertEqual(largest, {"AdamW.state[a key of Parameter]['exp_avg']", "AdamW.state[a key of Parameter]['exp_avg_sq']", "Linear.weight"})
        self.assertEqual(self.reported["live"], sorted(self.reported["live"], key=lambda row: -row[0]))
        stats, text = self.reported["gradients"]
        self.assertEqual((stats[:4], stats[5]), (["weight", 12, 1, 1], -2.0))
        self.assertAlmostEqual(stats[4], 14**0.5, places=5)
        self.assertEqual(text, "weight: norm 3.74166, -2 .. 3, mean 0.2, 1 NaN, 1 Inf")

    def test_recording_is_switched(self):
        self.assertTrue(self.reported["recording"])
        self.assertEqual(len(self.ask("report")["recording"]["spans"]), 2)

    def test_without_the_recorder_it_is_the_same(self):
        alone = json.loads(truth.run(SETUP.command(PROGRAM), SETUP, self.environment).splitlines()[-1])
        self.assertEqual(alone, {**self.reported, "recording": False, "changes": []})


if __name__ == "__main__":
    truth.run_tests(globals())

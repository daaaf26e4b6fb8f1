# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim diff` names the one change between two programs in its first sentence; its numbers are those of the other commands, and PyTorch's.

    python tests/e2e/diff_test.py --build build/release [--full]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import diff_pairs
import truth

SETUP = None
STEPS = ("--steps", "3")


class Recordings:
    """Traces of programs, each recorded once."""

    def __init__(self, folder):
        self.folder, self.traces = pathlib.Path(folder), {}

    def of(self, pair, is_b):
        text = diff_pairs.text_of(pair, is_b)
        arguments = (*pair.arguments, *STEPS, *(pair.more if is_b else ()))
        if (text, arguments) not in self.traces:
            folder = self.folder / str(len(self.traces))
            folder.mkdir()
            self.traces[text, arguments] = diff_pairs.record(SETUP, folder, pair, is_b, *arguments)
        return self.traces[text, arguments]


def diff(*arguments, code=0):
    done = subprocess.run([SETUP.gpumem, "diff", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def report_peak(trace):
    return truth.report(SETUP, trace)["devices"][0]["peak"]["allocated_bytes"]


def keys_of(value):
    if isinstance(value, list):
        return {key for each in value for key in keys_of(each)}
    return {*value, *(key for each in value.values() for key in keys_of(each))} if isinstance(value, dict) else set()


class Exam:
    """One test a pair of PAIRS."""

    PAIRS = {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-diff-")
        cls.addClassCleanup(folder.cleanup)
        cls.recordings = Recordings(folder.name)

    def test_the_first_sentence_names_the_cause(self):
        for name, pair in self.PAIRS.items():
            with self.subTest(pair=name):
                a, b = self.recordings.of(pair, False), self.recordings.of(pair, True)
                answer = diff(a, b)
                self.assertRegex(answer["headline"], pair.expected)
                self.assertEqual(answer["delta_bytes"], report_peak(b) - report_peak(a))
                if pair.exact is not None:
                    self.assertEqual(answer["lines"][0]["delta_bytes"], pair.exact)
                back = diff(b, a)
                self.assertEqual(back["delta_bytes"], -answer["delta_bytes"])
                self.assertEqual(back["cause"]["kind"], answer["cause"]["kind"], back["headline"])
                self.assert_sums(answer)

    def assert_sums(self, answer):
        allocated = answer["b"]["allocated_bytes"] - answer["a"]["allocated_bytes"]
        self.assertEqual(allocated, answer["delta_bytes"])
        for rows in ("modules", "lines", "stacks"):
            self.assertEqual(sum(row["delta_bytes"] for row in answer[rows]), allocated, rows)
        self.assertGreaterEqual(abs(answer["cause"]["explained_bytes"]) * 2, abs(allocated))


class EveryDayTest(Exam, unittest.TestCase):
    PAIRS = diff_pairs.EVERY_DAY

    def base(self):
        return self.recordings.of(diff_pairs.EVERY_DAY["batch"], False)

    def test_a_run_does_not_differ_from_itself(self):
        answer = diff(self.base(), self.base())
        self.assertEqual((answer["cause"]["kind"], answer["delta_bytes"]), ("none", 0))
        self.assertTrue(answer["headline"].startswith("no difference at the peak"), answer["headline"])

    def test_two_steps_of_one_run(self):
        leaking = self.recordings.of(diff_pairs.EVERY_DAY["leaked_tensor"], True)
        answer = diff(leaking, "--from", "step 2", "--to", "step 3")
        self.assertEqual(answer["lines"][0]["delta_bytes"], 32 << 20)
        self.assertRegex(answer["headline"], r"from step 2 to step 3: .*train_step.* 2 x 32 MiB -> 3 x 32 MiB")

    def test_moved_and_renamed_code_is_no_difference(self):
        pair = diff_pairs.gpt((("def train_step", "PAD = 1\n\n\ndef train_step"), ("compute_loss", "loss_of"), ("feed_forward", "mlp")), "", small=True)
        answer = diff(self.base(), self.recordings.of(pair, True))
        self.assertEqual(answer["delta_bytes"], 0)
        self.assertEqual([row for row in answer["lines"] + answer["modules"] if row["delta_bytes"]], [])
        self.assertIn(("module", "blocks.*.feed_forward", "blocks.*.mlp"), {(each["kind"], each["was"], each["now"]) for each in answer["renamed"]})
        self.assertIn("function", {each["kind"] for each in answer["renamed"]})

    def test_a_damaged_trace_is_said_first(self):
        whole = self.base().read_bytes()
        damaged = pathlib.Path(self.recordings.folder) / "damaged.gmtrace"
        damaged.write_bytes(whole[: len(whole) * 3 // 4])
        headline = diff(self.base(), damaged, code=4)["headline"]
        self.assertIn("B is damaged", headline.split(": ")[0])

    def test_every_key_is_documented(self):
        documented = (truth.ROOT / "docs" / "json.md").read_text()
        self.assertEqual([key for key in keys_of(diff(self.base(), self.base())) if f"`{key}`" not in documented], [])


class FullExamTest(Exam, unittest.TestCase):
    PAIRS = {**diff_pairs.FULL, **{f"second {name}": pair for name, pair in diff_pairs.SECOND.items()}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the 24 pairs, instead of the everyday ones")
    SETUP, arguments, (program, *rest) = truth.setup_of_tests(parser)
    unittest.main(argv=[program, "FullExamTest" if arguments.full else "EveryDayTest", *rest])

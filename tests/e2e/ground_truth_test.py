# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Categories against the truth: at each mark of a training the bytes of parameters, buffers, gradients, optimizer state and batches are exactly those
of the blocks in which the program's own tensors lie; what autograd keeps is what PyTorch's hooks count in another run.

    python tests/e2e/ground_truth_test.py --build build/release
"""

import concurrent.futures
import json
import os
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "ground_truth.py"
ROLES = ("parameter", "buffer", "gradient", "optimizer_state")


def at(trace, moment):
    """What `gpumemshim at` says of a moment."""
    return json.loads(truth.run([SETUP.gpumem, "at", moment, str(trace), "--json"], SETUP))


def differences(reported, answer, roles, fields=("bytes", "tensor_bytes")):
    """(category, field, what the program's tensors say, what gpumemshim says) where they differ."""
    found = {row["category"]: row for row in answer["category_details"]}
    pairs = [(role, field, reported[role][field], found.get(role, {}).get(field, 0)) for role in roles for field in fields]
    return [pair for pair in pairs if pair[2] != pair[3]]


class GroundTruthTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-ground-truth-")
        cls.addClassCleanup(folder.cleanup)
        cls.trace = pathlib.Path(folder.name) / "models.gmtrace"
        environment = truth.environment_of(truth.Case("none"), SETUP)
        recorded = truth.run(SETUP.recording(cls.trace, *SETUP.command(PROGRAM)), SETUP, environment)
        counted = truth.run([*SETUP.command(PROGRAM), "--saved"], SETUP, environment)
        cls.reported, cls.saved = truth.last_json_line(recorded), truth.last_json_line(counted)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            cls.answers = dict(zip(cls.reported, pool.map(lambda mark: at(cls.trace, mark), cls.reported)))

    def test_tensors(self):
        for mark, reported in self.reported.items():
            with self.subTest(mark=mark):
                self.assertEqual(differences(reported, self.answers[mark], ROLES), [])
                self.assertEqual(differences(reported, self.answers[mark], ["input"], ["bytes"]), [])  # views of one block, seen or not

    def test_parts(self):
        for mark, reported in self.reported.items():
            with self.subTest(mark=mark):
                self.assertEqual(self.answers[mark]["category_parts"], {role: reported[role]["parts"] for role in ("parameter", "gradient")})
        self.assertTrue(self.reported["mlp_per_sample 4.0 backward"]["gradient"]["parts"]["per_sample"])
        self.assertTrue(self.reported["mlp_per_sample 4.0 backward"]["parameter"]["parts"]["frozen"])

    def test_the_programs_do_what_they_are_for(self):
        """Each model has every role at some mark, so that the sums above are of something."""
        for role in ("parameter", "gradient", "optimizer_state", "input"):
            cases = {mark.split()[0] for mark, reported in self.reported.items() if reported[role]["bytes"]}
            self.assertEqual(cases, {mark.split()[0] for mark in self.reported}, role)
        self.assertTrue(self.reported["conv 1.0 forward"]["buffer"]["bytes"])

    def test_what_autograd_keeps(self):
        self.assertEqual(self.saved.keys(), self.reported.keys())
        for mark, reported in self.saved.items():
            with self.subTest(mark=mark):
                self.assertEqual({role: reported[role] for role in ROLES}, {role: self.reported[mark][role] for role in ROLES})  # the same training
                self.assertEqual(differences(reported, self.answers[mark], ["activation"], ["bytes"]), [])
                self.assertEqual("forward" in mark, reported["activation"]["bytes"] > 0)

    def test_little_is_unknown(self):
        for mark, answer in [("peak", at(self.trace, "peak")), *self.answers.items()]:
            with self.subTest(mark=mark):
                self.assertLess(answer["categories"]["unknown"], 0.01 * answer["values"]["allocated_bytes"])


if __name__ == "__main__":
    truth.run_tests(globals())

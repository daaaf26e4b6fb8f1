# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""PyTorch's own memory interfaces answer a recorded program as they answer a plain one: programs/memory_checks.py, check by check, in five settings.

    python tests/e2e/memory_test.py --build build/release
"""

import concurrent.futures
import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
RARER = ("test_with_cudas_own_pools", "test_with_pytorchs_own_history")
PROGRAM = truth.PROGRAMS / "memory_checks.py"
FEWEST_CHECKS = 60
DEVICE = {"SIMCUDA_MEM_MB": "8192", "PYTHONWARNINGS": "ignore"}


class MemoryTest(unittest.TestCase):
    def answers(self, text):
        rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return {row["check"]: row for row in rows if "unclean" not in row}

    def compare(self, recorder=(), **variables):
        environment = truth.environment_of(truth.Case("none", {**DEVICE, **variables}), SETUP)
        with concurrent.futures.ThreadPoolExecutor() as other, tempfile.TemporaryDirectory(prefix="gpumemshim-memory-") as folder:
            plain = other.submit(truth.run, SETUP.command(PROGRAM), SETUP, environment)
            trace = pathlib.Path(folder) / "run.gmtrace"
            recorded = self.answers(truth.run(SETUP.recording(trace, *SETUP.command(PROGRAM)), SETUP, {**environment, **dict(recorder)}))
            bare = self.answers(plain.result())
            report = truth.report(SETUP, trace)
        self.assertGreaterEqual(len(bare), FEWEST_CHECKS)
        self.assertEqual(list(recorded), list(bare))
        differences = {name: (answer, recorded[name]) for name, answer in bare.items() if recorded[name] != answer}
        self.assertEqual(differences, {})
        self.assertEqual(report["losses"]["total"], 0)
        events = sum(report["events"][layer] for layer in ("torch", "runtime", "driver"))
        self.assertGreater(events, 100)
        with_a_value = sum("value" in answer for answer in bare.values())
        print(f"  {len(bare)} checks the same, {with_a_value} with a value, {len(bare) - with_a_value} with an error; {events} events")
        return bare

    def test_by_default(self):
        answers = self.compare()
        # What the checks are worth: numbers where there should be some, errors where there must be.
        self.assertEqual(answers["check_stats_of_one_block"]["value"][1], 5 << 20)
        self.assertEqual(answers["check_out_of_memory"]["raised"], "OutOfMemoryError")
        self.assertEqual(answers["check_out_of_memory_is_counted"]["value"][0] > 0, True)
        self.assertGreater(sum("value" in answer for answer in answers.values()), FEWEST_CHECKS)

    def test_with_expandable_segments(self):
        self.compare(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_with_cudas_own_pools(self):
        self.compare(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")

    def test_with_pytorchs_own_history(self):
        self.compare(MEMORY_CHECKS_HISTORY="1")

    def test_without_a_cache_and_with_everything_recorded(self):
        everything = {"GPUMEMSHIM_NATIVE": "full", "GPUMEMSHIM_FREE_STACKS": "1", "GPUMEMSHIM_SAMPLE_MS": "20"}
        self.compare(everything, PYTORCH_NO_CUDA_MEMORY_CACHING="1")


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

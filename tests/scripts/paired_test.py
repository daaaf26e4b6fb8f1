# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What bench/lib/paired.py makes of measured blocks: an overhead that is there is found with its interval, one that is not there is not, and what a
machine does to neighbouring blocks alike drops out.

    python tests/scripts/paired_test.py
"""

import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "lib"))
import paired  # noqa: E402
import processes  # noqa: E402


def rounds(overhead, noise=0.02, count=80, drift=lambda number: 1.0, seed=1):
    """Blocks of a step of 10 ms on a machine whose speed changes as `drift` says."""
    chance = random.Random(seed)
    block = lambda number, factor: 10 * drift(number) * factor * (1 + chance.gauss(0, noise))
    return [{"on": block(n, 1 + overhead), "off": [block(n, 1), block(n, 1)]} for n in range(count)]


class Paired(unittest.TestCase):
    def test_an_overhead_is_found_with_its_interval(self):
        found = paired.compared(rounds(0.08))
        self.assertAlmostEqual(found["overhead_percent"]["median"], 8, delta=1)
        self.assertGreater(found["overhead_percent"]["low"], 5)

    def test_what_slows_all_blocks_of_a_round_drops_out(self):
        found = paired.compared(rounds(0.01, noise=0.002, drift=lambda number: 1 + number % 7 / 2))
        self.assertAlmostEqual(found["overhead_percent"]["median"], 1, delta=0.2)
        self.assertLess(found["overhead_percent"]["high"] - found["overhead_percent"]["low"], 0.3)

    def test_the_interval_holds_what_is_true_as_often_as_it_says(self):
        inside = 0
        for seed in range(200):
            found = paired.compared(rounds(0.0, count=40, seed=seed))["noise_percent"]
            inside += found["low"] <= 0 <= found["high"]
        self.assertGreaterEqual(inside, 180)

    def test_the_interval_is_the_one_of_order_statistics(self):
        self.assertEqual(paired.interval([6, 1, 5, 2, 4, 3]), {"median": 3.5, "low": 1, "high": 6, "rounds": 6})
        self.assertEqual((paired.interval(range(20))["low"], paired.interval(range(20))["high"]), (5, 14))

    def test_few_rounds_have_no_interval(self):
        found = paired.compared(rounds(0.5, noise=0, count=5))
        self.assertEqual((found["overhead_percent"]["low"], found["overhead_percent"]["high"]), (None, None))
        self.assertIn("too few rounds", paired.percent(found["overhead_percent"]))
        with self.assertRaises(processes.Failure):
            paired.compared([])


if __name__ == "__main__":
    unittest.main()

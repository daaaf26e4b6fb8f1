# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What memory of a program is for that serves and does not train: what it keeps from request to request is not temporary (programs/serving.py).

    python tests/e2e/serving_test.py --build build/release
"""

import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "serving.py"
WIDTH, BATCH, WORDS = 128, 8, 1000


class ServingTest(unittest.TestCase):
    def categories(self, kind):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-serving-") as folder:
            trace = pathlib.Path(folder) / "serving.gmtrace"
            truth.run(SETUP.recording(trace, *SETUP.command(PROGRAM), kind), SETUP, truth.environment_of(truth.Case("none"), SETUP))
            at = json.loads(truth.run([SETUP.gpumem, "at", "middle", "--json", str(trace)], SETUP))
        self.assertGreaterEqual(at["components"].get("attention", 0), at["categories"]["kv_cache"])
        return {row["category"]: (row["count"], row["bytes"]) for row in at["category_details"]}

    def check(self, kind, category, count, size):
        """Of all that may be kept there is this alone: so many tensors of a size, which PyTorch rounds up."""
        found = self.categories(kind)
        self.assertEqual({"kv_cache", "kept"} & found.keys(), {category} - {None}, found)
        if category is not None:
            self.assertEqual(found[category][0], count)
            self.assertTrue(count * size <= found[category][1] < 1.05 * count * size, found)

    def test_a_cache_made_once(self):
        self.check("static", "kv_cache", 6, BATCH * 512 * WIDTH * 4)

    def test_a_cache_that_grows_with_each_token(self):
        self.check("grow", "kv_cache", 6, BATCH * (16 + 7) * WIDTH * 4)

    def test_the_last_results(self):
        self.check("results", "kept", 10, BATCH * WORDS * 4)

    def test_every_result(self):
        self.check("all", "kept", 21, BATCH * 64 * WORDS * 4)

    def test_nothing_is_kept(self):
        self.check("plain", None, 0, 0)


if __name__ == "__main__":
    truth.run_tests(globals())

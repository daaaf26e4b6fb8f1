# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The page of `gpumemshim html` of several traces: side by side, with the difference of two, and of as many as there are.

    python tests/e2e/html_runs_test.py --build build/release
"""

import argparse
import pathlib
import sys

import html_test
import pages


class RunsTest(html_test.PageTest):
    @classmethod
    def setUpClass(cls):
        cls.traces = [html_test.SETUP.trace("small"), html_test.SETUP.trace("training")]
        cls.path = html_test.SETUP.page(*cls.traces)

    def test_side_by_side(self):
        self.assertEqual(self.page.evaluate("document.querySelector('#tabs [aria-selected=true]').id"), "to-runs")
        text = self.page.text("#tab-text")
        self.assertIn(html_test.SETUP.answer("diff", *self.traces)["headline"], text)
        for name in ("small", "training"):
            self.assertIn(name, text)
        self.page.evaluate("document.getElementById('trace').value = 1, document.getElementById('trace').dispatchEvent(new Event('change'))")
        self.page.settle()
        self.assertEqual(self.page.text("#title"), "train")
        self.assertIn("74 MiB in use", self.page.text("#moment"))


class ManyRunsTest(html_test.PageTest):
    """A row for each, however many there are, and no wider than the window."""

    @classmethod
    def setUpClass(cls):
        cls.names = [f"run{number}" for number in range(11)]
        cls.path = html_test.SETUP.page(*(html_test.SETUP.trace("training" if name == "run10" else "small", name=name) for name in cls.names))

    def test_none_is_left_out(self):
        figures, parts = self.page.evaluate(
            "[...document.querySelectorAll('#tab-text table.rows')].map((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim())))")
        for rows in (figures, parts):
            self.assertEqual(sorted({row[0].split()[0] for row in rows}), sorted(self.names))
        self.assertEqual(figures[0][0], "run10", "the largest first")
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 1200)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    arguments, rest = parser.parse_known_args()
    html_test.SETUP = html_test.Setup(arguments.build)
    sys.exit(pages.run(html_test.SETUP, rest))

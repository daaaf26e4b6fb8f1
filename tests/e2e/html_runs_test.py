# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The page of `gpumemshim html` of several traces: side by side, with the difference of two, and of as many as there are.

    python tests/e2e/html_runs_test.py --build build/release
"""

import sys

import html_test


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


class OverlayTest(html_test.PageTest):
    """Two runs of one name on one axis; the gap is what `gpumemshim diff` says."""

    @classmethod
    def setUpClass(cls):
        (html_test.SETUP.folder / "before").mkdir(exist_ok=True)
        cls.traces = [html_test.SETUP.trace("training", name="before/run"), html_test.SETUP.trace("training", name="run")]
        small = html_test.SETUP.trace("small", name="one")
        cls.path = html_test.SETUP.page(*cls.traces, name="same.html")
        cls.other = html_test.SETUP.page(small, cls.traces[0], name="other.html")
        cls.others = [small, cls.traces[0]]

    def gaps(self):
        rows = self.page.evaluate("[...document.querySelectorAll('.gap tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))")
        return {row[0]: row[1:] for row in rows}

    def switch(self, label):
        self.page.evaluate(f"[...document.querySelectorAll('#tab-text .segments button')].find((b) => b.innerText === '{label}').click()")
        self.page.settle()

    def test_equal_runs_have_no_gap_anywhere_and_names_of_their_own(self):
        legend = self.page.text("#tab-text")
        self.assertIn("before/run GPU 0", legend)
        self.assertEqual(self.page.evaluate("[...document.querySelectorAll('#tab-text .segments')][0].innerText.split('\\n').join(' ')"), "step time events")
        for axis in ("step", "time", "events"):
            self.switch(axis)
            width = self.page.evaluate("document.getElementById('overlay').clientWidth")
            for share in (0.1, 0.5, 0.9):
                self.page.evaluate(f"(() => {{ const o = document.getElementById('overlay'), r = o.getBoundingClientRect();"
                                   f" o.dispatchEvent(new MouseEvent('click', {{clientX: r.left + {share} * {width}, clientY: r.top + 50, bubbles: true}})); }})()")
                self.page.settle()
                self.assertIn(": 0 B", self.page.text(".gap p"), (axis, share))
                self.assertEqual(self.gaps(), {}, (axis, share))

    def test_the_gap_of_the_peaks_is_that_of_diff_and_the_address_keeps_the_place(self):
        page = html_test.SETUP.browser.open(self.other)
        self.page, before = page, self.page
        try:
            self.ready()
            diff = html_test.SETUP.answer("diff", *self.others)
            self.assertEqual(page.evaluate("document.querySelectorAll('#tab-text .segments button[aria-checked=true]')[0].innerText"), "time", "one of them has no steps")
            for by, answer in (("category", diff["categories"]), ("line", diff["lines"])):
                self.switch(by)
                shown = self.gaps()
                for row in answer:
                    if row["delta_bytes"] != 0:
                        signed = shown[row["name"]][3]
                        self.assertEqual(signed[0], "-" if row["delta_bytes"] < 0 else "+", row)
                        self.assertIn("iB" if abs(row["delta_bytes"]) >= 1024 else " B", signed)
            text = page.text(".gap p")
            self.assertIn("gap=line", page.evaluate("location.hash"))
            again = html_test.SETUP.browser.open(self.other, page.evaluate("location.hash"))
            try:
                self.assertEqual(again.text(".gap p"), text)
                self.assertGreater(again.evaluate(f"{html_test.COLOURS}('overlay')"), 5)
            finally:
                again.close()
            self.assertEqual(page.complaints, [])
        finally:
            self.page = before
            page.close()

    def test_zoom_outlives_what_draws_the_page_anew(self):
        """As `serve` does with newer data, a change of theme, and a link."""
        self.page.evaluate("(() => { const o = document.getElementById('overlay'), r = o.getBoundingClientRect();"
                           " o.dispatchEvent(new WheelEvent('wheel', {clientX: r.left + r.width / 2, clientY: r.top + 50, deltaY: -120, cancelable: true})); })()")
        self.page.settle()
        address = self.page.evaluate("location.hash")
        self.assertRegex(address, "left=[0-9.]+&right=[0-9.]+")
        self.page.evaluate("document.getElementById('theme').click()")
        self.page.settle()
        self.assertEqual(self.page.evaluate("location.hash.split('&').filter((part) => /^(left|right)=/.test(part)).join('&')"),
                         "&".join(part for part in address.split("&") if part.startswith(("left=", "right="))))
        again = html_test.SETUP.browser.open(self.path, address)
        try:
            again.settle()
            again.evaluate("document.getElementById('theme').click()")
            self.assertRegex(again.evaluate("location.hash"), "left=[0-9.]+&right=[0-9.]+")
        finally:
            again.close()
        self.switch("time")
        self.assertNotIn("left=", self.page.evaluate("location.hash"), "another axis is seen whole")

    def test_the_picture_is_saved_whole(self):
        svg = self.page.evaluate("(async () => { let made; const before = URL.createObjectURL; URL.createObjectURL = (blob) => (made = blob, before.call(URL, blob));"
                                 " HTMLAnchorElement.prototype.click = () => {}; document.getElementById('svg').click(); return made.text(); })()")
        self.assertIn("before/run 74 MiB", svg)
        self.assertNotIn("NaN", svg)


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
    sys.exit(html_test.main(__doc__))

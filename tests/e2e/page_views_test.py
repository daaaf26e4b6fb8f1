# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Every tab of the page of `gpumemshim html`, over every program of the corpus, made-up traces and files of others, light, dark and as narrow as a phone: no word
that a program says by mistake, no view that is empty without a sentence, no text that is cut off without a title or that cannot be read, and colours
that are told apart by any eye or on grey paper. What counts as wrong: page_audit.js.

    python tests/e2e/page_views_test.py --build build/release [--full | --only gpt]
"""

import argparse
import json
import pathlib
import pickle
import re
import subprocess
import sys
import unittest

import html_test
import pages
import truth

sys.path.insert(0, str(truth.ROOT / "tests" / "corpus"))
import corpus  # noqa: E402

AUDIT = (pathlib.Path(__file__).parent / "page_audit.js").read_text(encoding="utf-8")
ONLY = ""
VIEWS = (("light", 1200, 900), ("dark", 1200, 900), ("light", 360, 740))
MADE_UP = (("small",), ("training",), ("many", "3000"))
# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1; on linear values.
EYES = {
    "any": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    "grey": ((0.2126, 0.7152, 0.0722),) * 3,
}
LEAST_DIFFERENCE = 9  # of CIE 1976 L*a*b*: two areas beside one another


def lab(color, eye):
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in (int(color[at:at + 2], 16) / 255 for at in (1, 3, 5))]
    r, g, b = (min(max(sum(share * value for share, value in zip(row, linear)), 0), 1) for row in EYES[eye])
    xyz = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b, (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    x, y, z = (value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116 for value in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def alike(fills):
    """Pairs of (colour, hatch) by name that some eye takes for one another."""
    names = list(fills)
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            if fills[a][1] != fills[b][1]:
                continue  # told apart by their hatch
            for eye in EYES:
                apart = sum((p - q) ** 2 for p, q in zip(lab(fills[a][0], eye), lab(fills[b][0], eye))) ** 0.5
                if apart < LEAST_DIFFERENCE:
                    yield f"{a} {fills[a][0]} and {b} {fills[b][0]}: {apart:.1f} to {eye}"


class ViewsTest(unittest.TestCase):
    def audit(self, path):
        """What is wrong in any view of a page: what -> the views that have it."""
        page = html_test.SETUP.browser.open(path)
        found = {}
        try:
            page.evaluate(AUDIT)
            for theme, width, height in VIEWS:
                page.size(width, height)
                page.media(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
                for tab in page.evaluate("[...document.querySelectorAll('#tabs button')].map((button) => button.id)"):
                    page.evaluate(f"document.getElementById('{tab}').click()")
                    page.settle()
                    groups = page.evaluate("[...document.querySelectorAll('#group button')].length") if tab == "to-blocks" else 0
                    for group in range(max(groups, 1)):
                        if groups > 0:
                            page.evaluate(f"document.querySelectorAll('#group button')[{group}].click()")
                            page.settle()
                        for what in page.evaluate("pageAudit()"):
                            found.setdefault(what, []).append(f"{tab} {theme} {width}")
                for what in self.single_events(page):
                    found.setdefault(what, []).append(f"single events {theme} {width}")
                for layer in range(4):
                    page.evaluate(f"document.querySelectorAll('#layers button')[{layer}]?.click()")
                    page.settle()
                    for what in page.evaluate("pageAudit()"):
                        found.setdefault(what, []).append(f"layers {layer} {theme} {width}")
            self.assertEqual(page.complaints, [])
        finally:
            page.close()
        return {what: views[:3] for what, views in found.items()}

    def single_events(self, page):
        """What is wrong where the timeline is zoomed in on the peak, with the pointer on it."""
        page.evaluate("document.getElementById('to-peak').click()")
        page.evaluate("(() => { const t = document.getElementById('timeline'); for (let i = 0; i < 60; ++i) t.dispatchEvent(new KeyboardEvent('keydown', {key: '+', bubbles: true})); })()")
        page.settle()
        left, top, width = page.evaluate("(() => { const r = document.getElementById('timeline').getBoundingClientRect(); return [r.left, r.top, r.width]; })()")
        for share in (0.3, 0.5, 0.7):
            page.hover(left + share * width, top + 100)
            page.settle()
            yield from page.evaluate("pageAudit()")
        page.hover(1, 1)
        page.evaluate("document.getElementById('whole').click()")
        page.settle()

    def check(self, name, *traces):
        if not re.search(ONLY, name):
            return
        with self.subTest(page=name):
            path = html_test.SETUP.folder / f"{name}.html"
            made = subprocess.run([html_test.SETUP.gpumem, "html", *map(str, traces), "-o", str(path)], capture_output=True, text=True)
            self.assertIn(made.returncode, (0, 4), made.stderr)
            found = self.audit(path)
            if found:
                self.fail(json.dumps(found, indent=1, ensure_ascii=False))

    def test_made_up_traces(self):
        for what in MADE_UP:
            self.check(what[0], html_test.SETUP.trace(*what))
        self.check("two", html_test.SETUP.trace("small"), html_test.SETUP.trace("training"))

    def test_corpus(self):
        setup = truth.Setup(html_test.SETUP.build.resolve(), str(truth.ROOT / ".venv" / "bin" / "python"), simulated=True, timeout_s=800, quick=True)
        if not pathlib.Path(setup.python).exists():
            self.skipTest("no PyTorch here: scripts/bootstrap installs it")
        for name in corpus.CORPUS:
            self.check(name, corpus.record(name, setup))

    def test_histories_of_others(self):
        """PyTorch's own snapshots: whole, without a history, and with one that begins in the middle."""
        whole = html_test.SETUP.folder / "whole.pickle"
        subprocess.run([html_test.SETUP.gpumem, "export", "pytorch", str(html_test.SETUP.trace("training")), "-o", str(whole)], check=True, stdout=subprocess.DEVNULL)
        history = pickle.loads(whole.read_bytes())
        self.check("history", whole)
        parts = {"moment": {**history, "device_traces": []}, "late": {**history, "device_traces": [trace[len(trace) // 2:] for trace in history["device_traces"]]}}
        for name, changed in parts.items():
            path = html_test.SETUP.folder / f"{name}.pickle"
            path.write_bytes(pickle.dumps(changed))
            self.check(name, path)

    def test_colours_of_categories_are_told_apart(self):
        data = html_test.SETUP.answer("html", html_test.SETUP.trace("small"))
        self.assertEqual(list(alike({fill["color"]: (fill["color"], fill["hatch"]) for fill in data["palette"]})), [])
        colors = [fill["color"] for fill in data["palette"]]
        self.assertEqual(len(set(colors)), len(colors))
        taken = list(data["category_colors"].values())
        self.assertEqual(len(set(taken)), len(taken))
        self.assertLessEqual(set(taken), set(colors))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--only", default="", help="pages whose name matches this regular expression; without it those of every day")
    parser.add_argument("--full", action="store_true", help="all pages")
    arguments, rest = parser.parse_known_args()
    html_test.SETUP = html_test.Setup(arguments.build)
    html_test.SETUP.build = arguments.build
    ONLY = "" if arguments.full else arguments.only or "leak|made"
    sys.exit(pages.run(html_test.SETUP, rest))

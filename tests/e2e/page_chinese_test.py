# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The pages of `gpumemshim html` and `gpumemshim flame` under LC_ALL=zh_CN.UTF-8, in every view: no English word is left but names of the traced program,
commands, code and terms (chinese_test.py has the list). Looked at are texts, titles, what is read out, and what pictures write; the data is the same
in both languages.

    python tests/e2e/page_chinese_test.py --build build/release [--show]     --show: what is left in English, and no test
"""

import argparse
import pathlib
import re
import subprocess
import sys
import unittest

import chinese_test
import html_test
import pages
import truth

sys.path.insert(0, str(truth.ROOT / "tests" / "corpus"))
import corpus  # noqa: E402

SHOW = False
CORPUS = ("leak", "oom", "gpt")
MADE_UP = ("small", "training")

# What is drawn is written down, and each text that a reader sees or hears is given as a line.
LISTEN = """(() => {
  window.drawn = new Set();
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    window.drawn.add(text);
    return fillText.call(this, text, ...more);
  };
})()"""
SAID = """(() => {
  const said = [...window.drawn].filter((text) => !text.endsWith('…'));  // names that are cut
  window.drawn.clear();
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const {parentElement} = walker.currentNode;
    if (parentElement.closest('script, style, noscript, #language, kbd') === null) said.push(walker.currentNode.data.trim());
  }
  for (const name of ['title', 'aria-label', 'placeholder']) {
    for (const each of document.querySelectorAll(`[${name}]`)) said.push(each.getAttribute(name));
  }
  return [...new Set(said)].filter((text) => /[A-Za-z]/.test(text));
})()"""
# What is typed or comes from the browser: keys, and why an expression is none.
TYPED = re.compile(r"\([a-z]\)|\b(?:Shift|Esc|Home)\b|不是正则表达式：.*")
# Parts of models, as PyTorch calls them.
PARTS = {"attention", "mlp", "root", "nonlinearity", "other", "block"}
BUTTONS = "[...document.querySelectorAll('%s')].length"


def names_of(trace):
    """Also those that a page spells out: of devices, and of lines with their functions."""
    raw = html_test.SETUP.answer("html", trace)["traces"][0]
    words = {each for text in raw["strings"] for each in re.findall(r"\w+", text)} if "small" in str(trace) else set()
    modules = {row[key] for row in raw["answers"]["modules"]["modules"] for key in ("fqn", "class") if row[key]}
    return chinese_test.names_of(trace) | modules | {device["name"] for device in raw["devices"]} | {raw["about"]["program"]} | (words - chinese_test.OURS)


class PageChineseTest(unittest.TestCase):
    def gaps_of(self, page, where, names, gaps):
        longest = sorted((name for name in names if len(name) > 2), key=len, reverse=True)

        def bare(text):
            for name in longest:
                text = text.replace(name, " ") if re.search(r"[^\w.]", name) else text
            return TYPED.sub(" ", text)

        def look(view):
            page.settle()
            gaps.add(((bare(text), f"{where} {view}") for text in page.evaluate(SAID)), names)

        def press_each(selector):
            for i in range(page.evaluate(BUTTONS % selector)):
                page.evaluate(f"document.querySelectorAll('{selector}')[{i}]?.click()")
                look(f"{selector} {i}")

        page.evaluate(LISTEN)
        for selector in ("#tabs button", "#layers button", "#across button", "#modes button", "#units button", "#directions button"):
            press_each(selector)
        page.evaluate("document.getElementById('to-blocks')?.click()")
        press_each("#group button")
        page.evaluate("document.querySelector('#block-table tbody tr')?.click()")
        look("block")
        for query in ("linear", "(", "nothing like this", "64 MiB"):
            page.evaluate(f"(() => {{ const field = document.getElementById('search'); field.value = {query!r}; field.dispatchEvent(new Event('input')); }})()")
            look(f"search {query}")
        for x in range(200, 1000, 200):
            for y in (330, 420, 520, 640):
                page.hover(x, y)
                look(f"tip {x} {y}")
        self.assertEqual(page.complaints, [])

    def gaps(self):
        gaps = chinese_test.Gaps()
        traces = {name: html_test.SETUP.trace(name) for name in MADE_UP}
        setup = truth.Setup(html_test.SETUP.build.resolve(), str(truth.ROOT / ".venv" / "bin" / "python"), simulated=True, timeout_s=800, quick=True)
        chinese_test.SETUP = setup
        if pathlib.Path(setup.python).exists():
            traces.update((name, corpus.record(name, setup)) for name in CORPUS)
        asked = [("html", name, [trace]) for name, trace in traces.items()] + [("flame", name, [trace]) for name, trace in traces.items()]
        asked.append(("html", "two", [traces["small"], traces["training"]]))
        for command, name, of in asked:
            path = html_test.SETUP.folder / f"{name}.{command}.html"
            subprocess.run([setup.gpumem, command, *map(str, of), "-o", str(path)], env=chinese_test.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            names = frozenset(PARTS).union(*(names_of(trace) for trace in of)) | {name, *(pathlib.Path(trace).stem for trace in of)}
            page = html_test.SETUP.browser.open(path)
            page.size(1200, 900)
            try:
                self.gaps_of(page, f"{command} {name}", names, gaps)
            finally:
                page.close()
        return gaps

    def test_no_english_word_is_left(self):
        gaps = self.gaps()
        if SHOW:
            print(gaps.text())
        self.assertEqual(len(gaps.lines), 0, f"English words in Chinese:\n{gaps.text(60)}")

    def test_data_has_no_language(self):
        trace = html_test.SETUP.trace("small")
        for command in ("html", "flame"):
            said = [subprocess.run([html_test.SETUP.gpumem, command, "--json", str(trace)], env=env, capture_output=True, check=True).stdout
                    for env in (chinese_test.environment(), {**chinese_test.environment(), "LC_ALL": "C.UTF-8"})]
            self.assertEqual(*said)

    def test_the_address_chooses_the_language(self):
        for command, waits in (("html", "#tabs"), ("flame", "#modes")):
            path = html_test.SETUP.folder / f"address.{command}.html"
            subprocess.run([html_test.SETUP.gpumem, command, str(html_test.SETUP.trace("small")), "-o", str(path)], check=True, stdout=subprocess.DEVNULL)
            for fragment, has_chinese in (("", False), ("#lang=zh", True)):
                page = html_test.SETUP.browser.open(path, fragment)
                page.settle()
                self.assertEqual(bool(chinese_test.CHINESE.search(page.text(waits))), has_chinese, (command, fragment))
                page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--show", action="store_true")
    arguments, rest = parser.parse_known_args()
    html_test.SETUP = html_test.Setup(arguments.build)
    html_test.SETUP.build = arguments.build
    SHOW = arguments.show
    sys.exit(pages.run(html_test.SETUP, rest))

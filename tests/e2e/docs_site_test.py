# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The documents as a site, opened from the disk in a browser without network: pages fetch no other place, and the search finds.

    python tests/e2e/docs_site_test.py --build build/release

Exit 77 where the site's packages or a browser cannot be had.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import chromium

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
SITE = None
ASK = """(words => {
  const input = document.querySelector("input.md-search__input");
  input.focus();
  input.value = words;
  input.dispatchEvent(new Event("input", {bubbles: true}));
  input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
})"""
FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href.split('#')[0].split('?')[0])"


class DocsSiteTest(unittest.TestCase):
    def found(self, page, words):
        """Files of the pages that the search names, best first."""
        page.evaluate(f"{ASK}({words!r})")
        deadline = time.monotonic() + chromium.TIMEOUT_S
        while time.monotonic() < deadline:
            if links := page.evaluate(FOUND):
                return links
            time.sleep(0.1)
        return []

    def test_search_works_from_the_disk(self):
        """From the first page and from a folder below it, whose links are relative to another place."""
        for start, words, wanted in (("index.html", "fragmentation", "commands/fragmentation.html"), ("commands/report.html", "GPUMEMSHIM_OWNERS_MS", "environment.html"),
                                     ("guides/out-of-memory.html", "exit codes", "exit-codes.html")):
            with self.subTest(words=words), chromium.Browser() as browser:
                page = browser.open(SITE / start)
                self.assertIn((SITE / wanted).as_uri(), self.found(page, words))
                self.assertEqual([address for address in page.requests if not address.startswith(("file:", "data:", "about:", "blob:"))], [])


def main():
    global SITE
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)
    arguments, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="gpumemshim-site-") as folder:
        # The packages stay in build/docs_site/venv for the next time.
        ready = ROOT / "build" / "docs_site" / "venv" / "bin" / "python"
        given = ["--python", ready] if (ready.parents[1] / "installed.txt").exists() else []
        done = subprocess.run([ROOT / "scripts" / "docs_site", *given, *([] if not given else ["--out", folder])], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout + done.stderr)
            sys.exit(done.returncode)
        if chromium.find() is None:
            print("skipped: no Chromium here")
            sys.exit(SKIPPED)
        SITE = (pathlib.Path(folder) if given else ROOT / "build" / "docs_site") / "site"
        unittest.main(argv=[sys.argv[0], *(word for word in rest if word != "--full")])


if __name__ == "__main__":
    main()

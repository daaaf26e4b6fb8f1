# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The page of `gpumemshim flame` as its reader has it: opened from a file without a network, clicked, zoomed, searched, inverted, printed.

    python tests/e2e/flame_test.py --build build/release
"""

import argparse
import json
import pathlib
import subprocess
import sys
import unittest

import pages

SETUP = None
ROW = 21  # paint.js
PINK, WHITE, DARK = (0xD5, 0x15, 0x7F), (0xFF, 0xFF, 0xFF), (0x16, 0x18, 0x1D)

# How many of the canvas's pixels have a colour, and the rectangle around them.
COLOURED = """((r, g, b) => {
  const canvas = document.getElementById('canvas');
  const {data, width} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0, left = Infinity, right = -1, top = Infinity;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] !== r || data[i + 1] !== g || data[i + 2] !== b) continue;
    ++count;
    left = Math.min(left, (i / 4) % width); right = Math.max(right, (i / 4) % width); top = Math.min(top, Math.floor(i / 4 / width));
  }
  return {count, left, right, top};
})"""


class Setup(pages.PageSetup):
    def __init__(self, arguments):
        super().__init__(arguments.build)
        self.stacks = arguments.stacks

    def page(self, trace, *flags, name="page.html"):
        path = self.folder / name
        subprocess.run([self.gpumem, "flame", str(trace), "-o", str(path), *flags], check=True, stdout=subprocess.PIPE)
        return path


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = SETUP.page(SETUP.trace("small"))

    def setUp(self):
        self.page = SETUP.browser.open(self.path, getattr(self, "fragment", ""))
        self.page.size(1200, 800)
        self.looks("light")
        self.width = self.page.evaluate("document.getElementById('canvas').clientWidth")

    def tearDown(self):
        self.assertEqual(self.page.complaints, [])
        self.assertEqual({url.partition("#")[0] for url in self.page.requests}, {self.path.as_uri()})
        self.page.close()

    def looks(self, scheme, motion="reduce"):
        self.page.media(prefers_color_scheme=scheme, prefers_reduced_motion=motion)

    def place(self, row, share):
        """Where the box of a row is that lies at this share of the width."""
        top, left = self.page.evaluate("(() => { const r = document.getElementById('canvas').getBoundingClientRect(); return [r.top, r.left]; })()")
        return left + share * self.width, top + row * ROW + ROW / 2

    def tip(self, row, share):
        self.page.hover(*self.place(row, share))
        return self.page.evaluate("(() => { const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText; })()")

    def name(self, row, share):
        return self.tip(row, share).partition("\n")[0]

    def search(self, text):
        self.page.evaluate("document.getElementById('search').focus(), document.getElementById('search').select()")
        self.page.call("Input.insertText", text=text)
        self.page.settle()
        return self.page.text("#matched")

    def path_text(self):
        return [name.strip() for name in self.page.text("#path").replace("\n", "").split("›")]

    def coloured(self, colour):
        return self.page.evaluate(f"{COLOURED}({colour[0]}, {colour[1]}, {colour[2]})")


class SmallTest(PageTest):
    def test_says_what_it_is_of(self):
        self.assertEqual(self.page.text("#title"), "train</title><b>bold</b>")
        self.assertIn("train</title><b>bold</b>", self.page.evaluate("document.title"))
        self.assertTrue(self.page.text("#moment").startswith("Peak allocated on GPU 0: 16 MiB at "), self.page.text("#moment"))
        self.assertEqual(self.page.text("#simulated"), "simulated GPU")
        self.assertIn("Nothing was lost", self.page.text("#foot"))
        self.page.click_on("#facts-summary")
        self.assertIn("SimCUDA Test, 64 MiB", self.page.text("#facts"))

    def test_the_tip_says_all_of_a_box(self):
        tip = self.tip(1, 0.1)
        for part in ("main", "train.py:9", "12 MiB", "75 % of all", "12,582,912 bytes", "4 blocks", "Your code"):
            self.assertIn(part, tip)
        self.assertEqual(self.name(3, 0.1), "Block.forward")
        self.assertIn("torch.nn.modules.linear", self.tip(4, 0.1))
        self.assertEqual(self.tip(7, 0.9), "")

    def test_a_click_zooms_and_the_way_leads_back(self):
        self.page.click(*self.place(3, 0.1))
        self.assertEqual(self.path_text(), ["all", "main", "step", "Block.forward"])
        self.assertEqual(self.name(3, 0.99), "Block.forward")
        self.assertIn("100 % of the zoomed frame", self.tip(3, 0.99))
        self.assertIn("75 % of the zoomed frame", self.tip(4, 0.5))
        self.page.press("Escape")
        self.assertEqual(self.path_text(), ["all", "main", "step"])
        self.page.click_on("#path button")
        self.assertEqual(self.path_text(), ["all"])

    def test_zooming_moves_and_comes_to_rest(self):
        self.looks("light", motion="no-preference")
        self.page.click(*self.place(3, 0.1))
        self.page.evaluate("new Promise((done) => setTimeout(done, 200))")
        self.page.settle()
        self.assertEqual(self.name(3, 0.99), "Block.forward")

    def test_the_keyboard_alone_is_enough(self):
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
            self.page.press(key)
        self.assertIn("remember, train.py:7: 4 MiB, 25 % of all, depth 2", self.page.evaluate("document.getElementById('spoken').textContent"))
        self.page.press("Enter")
        self.assertEqual(self.path_text(), ["all", "main", "remember"])
        self.page.press("Home")
        self.assertEqual(self.path_text(), ["all"])
        self.page.press("?")
        self.assertTrue(self.page.evaluate("document.getElementById('help').open"))

    def test_the_address_restores_search_and_language(self):
        found = self.search("linear|remember")
        link = self.page.evaluate("location.hash")
        again = SETUP.browser.open(self.path, link + "&lang=zh")
        again.settle()
        self.assertEqual(again.evaluate("document.getElementById('search').value"), "linear|remember")
        self.assertEqual(again.text("#matched").partition("，")[0], found.partition(",")[0])
        self.assertIn("lang=zh", again.evaluate("location.hash + (document.getElementById('language').click(), document.getElementById('language').click(), location.hash)"))
        self.assertIn("search=linear", again.evaluate("location.hash"))
        self.assertEqual(again.complaints, [])
        again.close()

    def test_search_marks_and_sums(self):
        self.assertEqual(self.coloured(PINK)["count"], 0)
        self.assertEqual(self.search("linear|remember"), "10 MiB, 63 % of all, in 2 boxes")
        self.assertGreater(self.coloured(PINK)["count"], 0.5 * 10 / 16 * self.width * ROW)
        self.assertEqual(self.search("no such thing"), "nothing matches")
        self.assertEqual(self.coloured(PINK)["count"], 0)
        self.assertIn("not a regular expression", self.search("("))
        # Both of a caller and its callee match: counted once.
        self.assertEqual(self.search("train.py"), "12 MiB, 75 % of all, in 1 box")
        self.page.press("Escape")
        self.assertEqual(self.page.text("#matched"), "")

    def test_inverted_begins_with_who_allocated(self):
        self.page.press("i")
        self.assertEqual([self.name(row, 0.1) for row in range(1, 5)], ["Linear.forward", "Block.forward", "step", "main"])
        self.page.click_on("#inverted")
        self.assertEqual(self.name(1, 0.1), "main")

    def test_each_view_has_its_own_numbers(self):
        names = self.page.evaluate("Array.from(document.querySelectorAll('#modes button')).map((b) => b.innerText.replace(/\\s+/g, ' '))")
        self.assertEqual(names, ["Peak 16 MiB", "Leaks 4 MiB", "Total allocated 18 MiB", "Temporary 10 MiB", "Average 6.88 MiB"])
        self.page.click_on("#modes button:nth-child(2)")
        self.assertTrue(self.page.text("#moment").startswith("Alive at the end on GPU 0"), self.page.text("#moment"))
        self.assertEqual(self.name(2, 0.9), "remember")
        self.page.press("4")
        self.assertIn("Freed after at most 1 other", self.page.text("#moment"))
        self.assertIn("2 allocations", self.search_tip("scratch"))

    def search_tip(self, name):
        self.search(f"^{name}")
        self.page.press("Enter")
        return self.page.text("#tip")

    def test_kinds_can_be_hidden(self):
        shown = "document.querySelector('#legend [data-kind=\"%d\"]')"
        self.assertEqual(self.name(2, 0.9), "load")  # the import machinery is hidden at first
        self.page.evaluate(shown % 4 + ".click()")
        self.assertEqual(self.name(2, 0.9), "_find_and_load")
        self.page.evaluate(shown % 2 + ".click()")
        self.assertEqual(self.name(3, 0.1), "Block.forward")
        self.assertEqual(self.name(4, 0.4), "")  # PyTorch's line is gone, its bytes are its caller's

    def test_split_by_thread_device_and_depth(self):
        self.page.evaluate("document.getElementById('split').value = 'thread', document.getElementById('split').dispatchEvent(new Event('change'))")
        self.assertEqual([self.name(1, 0.1), self.name(1, 0.9)], ["thread 4242 python", "thread 4243 loader\"'><i>"])
        self.page.evaluate("document.getElementById('depth').value = 1, document.getElementById('depth').dispatchEvent(new Event('change'))")
        self.assertEqual([self.name(2, 0.1), self.name(3, 0.1)], ["main", ""])
        self.page.evaluate("document.getElementById('device').value = 1, document.getElementById('device').dispatchEvent(new Event('change'))")
        self.assertTrue(self.page.text("#moment").startswith("Peak allocated on GPU 1: 2 MiB"), self.page.text("#moment"))
        self.page.evaluate("document.getElementById('device').value = -1, document.getElementById('device').dispatchEvent(new Event('change'))")
        self.assertIn("their sum was never in use at once", self.page.text("#moment"))

    def test_flame_stands_on_its_root(self):
        self.page.press("f")
        rows = self.page.evaluate("document.getElementById('canvas').clientHeight") / ROW
        names = {self.name(rows - 1 - depth, 0.1) for depth in range(4)}
        self.assertLessEqual({"Peak", "main", "step"}, names)

    def test_hostile_names_are_text(self):
        self.search("script")
        self.page.press("Enter")
        tip = self.page.text("#tip")
        self.assertIn("</script><script>document.title='owned'</script><!-- \\x1b[31m \\u{202e} \" ' &", tip)
        self.assertIn("<img src=x onerror=", tip)
        self.assertNotIn("owned", self.page.evaluate("document.title"))
        self.assertEqual(self.page.evaluate("document.querySelectorAll('img, b, i, script:not([id]):not(:last-of-type)').length"), 0)

    def test_light_dark_narrow_and_paper(self):
        self.assertGreater(self.coloured(WHITE)["count"], 1000)
        self.looks("dark")
        self.assertGreater(self.coloured(DARK)["count"], 1000)
        self.assertEqual(self.coloured(WHITE)["count"], 0)
        self.page.press("t")
        self.assertGreater(self.coloured(WHITE)["count"], 1000)
        self.page.size(360, 640)
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 360)
        self.assertGreater(len(self.page.call("Page.printToPDF")["data"]), 10000)

    def test_the_policy_stops_what_is_not_the_page(self):
        self.page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = \"owned\"'}))")
        self.page.evaluate("document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/x.png'}))")
        self.page.settle()
        self.assertNotIn("owned", self.page.evaluate("document.title"))
        stopped = self.page.complaints
        self.assertEqual(len(stopped), 2, stopped)
        self.page.forget_complaints()


class ManyTest(PageTest):
    """Many distinct stacks: the page stays bounded, says what it merged, and still does everything."""

    @classmethod
    def setUpClass(cls):
        nodes = "1000" if SETUP.stacks < 100_000 else "100000"
        cls.path = SETUP.page(SETUP.trace("many", str(SETUP.stacks)), "--max-nodes", nodes, name="many.html")
        cls.nodes = int(nodes)

    def test_bounded_and_complete(self):
        self.assertRegex(self.page.text("#warnings"), r"The [\d,]+ smallest stacks were merged")
        asked = [SETUP.gpumem, "flame", "--json", "--max-nodes", str(self.nodes), str(SETUP.folder / "many.gmtrace")]
        data = json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)
        self.assertLessEqual(len(data["nodes"]["up"]), 2 * self.nodes)
        total = next(view for view in data["views"] if view["mode"] == "total")
        self.assertEqual(sum(total["rows"]["bytes"]), total["bytes"])
        self.assertGreaterEqual(total["count"], SETUP.stacks)
        self.page.press("3")
        tip = self.tip(0, 0.5)
        self.assertIn(f"{total['bytes']:,} bytes", tip)
        self.assertIn(f"{total['count']:,} allocations", tip)
        self.assertRegex(self.search("function_1"), r" in [\d,]+ box")
        self.page.press("Escape")
        self.page.evaluate("document.activeElement.blur()")
        self.page.press("i")
        self.assertIn(f"{total['bytes']:,} bytes", self.tip(0, 0.5))


def main():
    global SETUP
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--stacks", type=int, default=3000)
    arguments, rest = parser.parse_known_args()
    SETUP = Setup(arguments)
    return pages.run(SETUP, rest)


if __name__ == "__main__":
    sys.exit(main())

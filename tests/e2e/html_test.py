# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The page of `gpumemshim html` as its reader has it: opened from a file without a network, clicked, zoomed, searched, in both languages, printed.
What it shows is held against what the other commands say of the same trace.

budget: one page, one browser that is started once for all of it.

    python tests/e2e/html_test.py --build build/release
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time
import unittest

import pages

SETUP = None
TIMEOUT_S = 60
TABS = ("blocks", "treemap", "stacks", "addresses", "leaks", "steps", "modules", "model", "fragmentation")

# How many colours a canvas has.
COLOURS = """((id) => {
  const canvas = document.getElementById(id);
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
})"""


def rows_of(selector):
    return (f"Array.from(document.querySelectorAll('{selector} tbody tr')).map((row) => "
            "Array.from(row.cells).map((cell) => cell.innerText.trim()))")


class Setup(pages.PageSetup):
    def page(self, *traces, flags=(), name="page.html"):
        path = self.folder / name
        done = subprocess.run([self.gpumem, "html", *map(str, traces), "-o", str(path), *flags], check=True, stdout=subprocess.PIPE, text=True)
        self.said = done.stdout
        return path

    def answer(self, command, *arguments):
        return json.loads(subprocess.run([self.gpumem, command, "--json", *map(str, arguments)], check=True, stdout=subprocess.PIPE).stdout)


class PageTest(unittest.TestCase):
    fragment = ""

    def setUp(self):
        self.page = SETUP.browser.open(self.path, self.fragment)
        self.page.size(1200, 900)
        self.page.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
        self.ready()

    def ready(self):
        deadline = time.monotonic() + TIMEOUT_S
        while not self.page.evaluate("document.getElementById('waiting').hidden"):
            self.assertLess(time.monotonic(), deadline, self.page.text("#waiting"))
        self.page.settle()

    def tearDown(self):
        self.assertEqual(self.page.complaints, [])
        self.assertEqual({url.partition("#")[0] for url in self.page.requests}, {self.path.as_uri()})
        self.page.close()

    def open(self, tab):
        self.page.evaluate(f"document.getElementById('to-{tab}').click()")
        self.page.settle()

    def search(self, text):
        self.page.evaluate("document.getElementById('search').focus(), document.getElementById('search').select()")
        self.page.call("Input.insertText", text=text)
        self.page.settle()
        return self.page.text("#matched")

    def rows(self, selector="#block-table"):
        return self.page.evaluate(rows_of(selector))

    def choose(self, group, label):
        self.page.evaluate(f"Array.from(document.querySelectorAll('#{group} button')).find((b) => b.innerText === {json.dumps(label)}).click()")
        self.page.settle()

    def at(self, share, height=0.5):
        """A place of the timeline."""
        left, top, width, tall = self.page.evaluate("(() => { const r = document.getElementById('timeline').getBoundingClientRect();"
                                                    " return [r.left, r.top, r.width, r.height]; })()")
        return left + 76 + share * (width - 90), top + tall * height


class SmallTest(PageTest):
    """Two GPUs, hostile names."""

    @classmethod
    def setUpClass(cls):
        cls.trace = SETUP.trace("small")
        cls.path = SETUP.page(cls.trace)

    def test_numbers_are_those_of_the_report(self):
        device = SETUP.answer("report", self.trace)["devices"][0]
        self.assertEqual(device["at_peak"]["bytes"], 16 << 20)
        moment = self.page.text("#moment")
        self.assertIn("Peak · 16 MiB in use", moment)
        self.assertIn(f"{device['at_peak']['count']} blocks", moment)
        self.choose("group", "block")
        self.assertEqual(len(self.rows()), device["at_peak"]["count"])
        self.choose("group", "line")
        self.assertEqual(self.rows()[0][:3], ["6 MiB", "38 %", "2"])

    def test_says_what_it_is_of(self):
        self.assertEqual(self.page.text("#title"), "train</title><b>bold</b>")
        self.assertIn("train</title><b>bold</b>", self.page.evaluate("document.title"))
        self.assertEqual(self.page.text("#simulated"), "simulated GPU")
        self.assertIn("Nothing was lost", self.page.text("#foot"))
        self.assertIn("16 MiB allocated", self.page.text("#verdict"))

    def test_hostile_names_are_text(self):
        self.search("script")
        self.choose("group", "block")
        self.page.evaluate("document.querySelector('#block-table tbody tr').click()")
        self.page.settle()
        details = self.page.text("#block-details")
        self.assertIn("</script><script>document.title='owned'</script><!-- \\x1b[31m \\u{202e} \" ' &", details)
        self.assertIn("<img src=x onerror=", details)
        any(map(self.open, TABS))
        self.assertNotIn("owned", self.page.evaluate("document.title"))
        self.assertEqual(self.page.evaluate("document.querySelectorAll('img, b, i, script:not([id]):not(:last-of-type)').length"), 0)

    def test_each_tab_shows_something(self):
        for tab in TABS:
            with self.subTest(tab=tab):
                self.open(tab)
                self.assertEqual(self.page.evaluate("document.querySelector('#tabs [aria-selected=true]').id"), f"to-{tab}")
                canvas = {"treemap": "treemap", "stacks": "stack-canvas", "addresses": "map"}.get(tab)
                if canvas:
                    self.assertGreater(self.page.evaluate(f"{COLOURS}('{canvas}')"), 4)
                elif tab != "blocks":
                    self.assertGreater(len(self.page.text("#tab-text")), 10)

    def test_the_other_gpu(self):
        self.page.evaluate("document.getElementById('device').value = 1, document.getElementById('device').dispatchEvent(new Event('change'))")
        self.page.settle()
        self.assertIn("2 MiB in use, 1 block", self.page.text("#moment"))

    def test_light_dark_narrow_and_paper(self):
        corner = "Array.from(document.getElementById('timeline').getContext('2d').getImageData(2, 2, 1, 1).data).slice(0, 3)"
        self.assertEqual(self.page.evaluate(corner), [255, 255, 255])
        self.page.press("t")
        self.page.press("t")
        self.page.settle()
        self.assertEqual(self.page.evaluate(corner), [0x16, 0x18, 0x1D])
        self.page.size(360, 640)
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 360)
        self.assertGreater(len(self.page.call("Page.printToPDF")["data"]), 10000)

    def test_the_policy_stops_what_is_not_the_page(self):
        self.page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = \"owned\"'}))")
        self.page.evaluate("document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/x.png'}))")
        self.page.settle()
        self.assertNotIn("owned", self.page.evaluate("document.title"))
        self.assertEqual(len(self.page.complaints), 2, self.page.complaints)
        self.page.forget_complaints()


class TrainingTest(PageTest):
    @classmethod
    def setUpClass(cls):
        cls.trace = SETUP.trace("training")
        cls.path = SETUP.page(cls.trace)

    def test_any_moment_has_its_blocks(self):
        for event in (5, 12, 20, 40):
            self.page.close()
            self.fragment = f"#event={event}&group=block&x=events"
            self.setUp()
            shown = re.search(r"event ([\d,]+)", self.page.text("#moment")).group(1).replace(",", "")
            self.assertLessEqual(int(shown), event)  # the last change before it
            data = SETUP.answer("html", self.trace)["traces"][0]
            blocks, born = data["blocks"], 0
            alive = 0
            for step, length, size in zip(blocks["born"], blocks["end"], blocks["size"]):
                born += step
                alive += size if born <= event < born + length else 0
            total = sum(int(row[0].split()[0]) for row in self.rows())
            self.assertEqual(total, alive >> 20)

    def test_a_click_chooses_and_dragging_zooms(self):
        self.page.click(*self.at(0.02))
        early = self.page.text("#moment")
        self.page.click(*self.at(0.95))
        self.assertNotEqual(self.page.text("#moment"), early)
        self.page.mouse("mousePressed", *self.at(0.2), button="left", clickCount=1)
        self.page.mouse("mouseMoved", *self.at(0.4), button="left", buttons=1)
        self.page.mouse("mouseReleased", *self.at(0.4), button="left", clickCount=1)
        self.page.settle()
        self.assertIn("from=", self.page.evaluate("location.hash"))
        self.page.press("0")
        self.page.settle()
        self.assertNotIn("from=", self.page.evaluate("location.hash"))
        self.page.mouse("mouseWheel", *self.at(0.5), deltaX=0, deltaY=-120)
        self.page.settle()
        self.assertIn("from=", self.page.evaluate("location.hash"))

    def test_keys_move_and_the_address_keeps_what_was_chosen(self):
        peak = self.page.text("#moment")
        self.page.press("e")
        self.assertNotEqual(self.page.text("#moment"), peak)
        self.page.press("p")
        self.assertEqual(self.page.text("#moment"), peak)
        self.page.press("ArrowLeft")
        self.assertNotEqual(self.page.text("#moment"), peak)
        self.page.press("2")
        self.page.press("c")
        before, link = self.page.text("#moment"), self.page.evaluate("location.hash")
        self.page.close()
        self.fragment = link
        self.setUp()
        self.assertEqual(self.page.text("#moment"), before)
        self.assertEqual(self.page.evaluate("document.querySelector('#tabs [aria-selected=true]').id"), "to-treemap")
        self.assertEqual(self.page.text("#layers [aria-checked=true]"), "module")
        self.page.press("?")
        self.assertTrue(self.page.evaluate("document.getElementById('help').open"))

    def test_steps_and_leaks_are_those_of_their_commands(self):
        self.open("steps")
        steps = SETUP.answer("steps", self.trace)["steps"]
        self.assertEqual([row[0] for row in self.rows("#tab-text")][:len(steps)], [str(step["step"]) for step in steps])
        self.assertEqual([row[2] for row in self.rows("#tab-text")][:2], ["60 MiB", "62 MiB"])
        self.open("leaks")
        leak = SETUP.answer("leaks", self.trace)["devices"][0]
        self.assertEqual(leak["leaks"][0]["bytes_per_iteration"], 2 << 20)
        row = self.rows("#tab-text")[0]
        self.assertEqual((row[0], row[2]), ("growing", "2 MiB"))
        self.assertIn(leak["leaks_headline"], self.page.text("#tab-text"))
        self.assertIn("16 MiB job/cache.py:88 remember", self.page.text("#tab-text .legend"))
        # A row leads to its moment.
        self.open("steps")
        self.page.evaluate("document.querySelectorAll('#tab-text tbody tr')[3].click()")
        self.page.settle()
        self.assertIn("66 MiB in use", self.page.text("#moment"))
        self.assertIn("step 4", self.page.text("#moment"))

    def test_search_leaves_out_what_does_not_match(self):
        self.open("blocks")
        self.assertEqual(self.search("remember"), "14 MiB, 19 %")
        self.assertEqual(len(self.rows()), 1)
        self.assertIn("not a regular expression", self.search("("))
        self.assertEqual(self.search("no such thing"), "nothing matches")
        self.page.press("Escape")
        self.assertGreater(len(self.rows()), 1)

    def test_sizes_and_addresses_are_found(self):
        self.open("blocks")
        self.choose("group", "block")
        sizes = lambda: {row[0] for row in self.rows()}
        self.search("2 MiB")
        self.assertEqual(sizes(), {"2 MiB"})
        self.search("2097152")
        self.assertEqual(sizes(), {"2 MiB"})
        self.search("> 2 MiB")
        self.assertTrue(sizes())
        self.assertNotIn("2 MiB", sizes())
        self.search("")
        address = self.rows()[-1][7]
        self.search(address)
        self.assertEqual([row[7] for row in self.rows()], [address])

    def test_a_growing_run_opens_on_what_grows_and_sentences_lead_to_their_rows(self):
        chosen = lambda: self.page.evaluate("document.querySelector('#tabs [aria-selected=true]').id")
        marked = lambda: self.page.evaluate("document.querySelector('tr.marked')?.innerText ?? ''")
        self.assertEqual(chosen(), "to-leaks")
        links = self.page.evaluate("[...document.querySelectorAll('#verdict dd')].map((dd) => dd.querySelector('a') !== null)")
        self.assertEqual(links, [True] * len(links))
        leads = self.page.evaluate("[...document.querySelectorAll('#verdict dt')].map((dt) => dt.innerText)")
        for lead, tab, row in (("Problem", "to-fragmentation", ""), ("Peak", "to-blocks", ""), ("Mostly", "to-blocks", "MiB")):
            self.page.evaluate(f"document.querySelectorAll('#verdict dd a')[{leads.index(lead)}].click()")
            self.page.settle()
            self.assertEqual(chosen(), tab)
            self.assertIn(row, marked())
        # The link itself says the same, and so does the address in another window.
        link, row = self.page.evaluate("location.hash"), marked()
        self.page.close()
        self.fragment = link
        self.setUp()
        self.assertEqual((chosen(), marked()), ("to-blocks", row))

    def test_a_block_stands_beside_the_table_and_in_the_address(self):
        self.open("blocks")
        self.choose("group", "block")
        self.page.evaluate("document.querySelectorAll('#block-table tbody tr')[1].click()")
        self.page.settle()
        told = self.page.text("#block-details")
        table, panel = self.page.evaluate("['block-table', 'block-details'].map((id) => document.getElementById(id).getBoundingClientRect().toJSON())")
        self.assertLessEqual(table["right"], panel["left"])
        self.assertLess(panel["top"], 900)
        link = self.page.evaluate("location.hash")
        self.page.close()
        self.fragment = link
        self.setUp()
        self.assertEqual(self.page.text("#block-details"), told)
        self.page.evaluate("document.getElementById('close-block').click()")
        self.page.settle()
        self.assertTrue(self.page.evaluate("document.getElementById('block-details').hidden"))

    def test_another_address_is_followed(self):
        self.page.evaluate("location.hash = '#tab=steps&lang=zh&x=events&from=3&until=9'")
        self.page.evaluate("new Promise((done) => setTimeout(done, 50))")
        self.page.settle()
        self.assertEqual(self.page.evaluate("document.querySelector('#tabs [aria-selected=true]').id"), "to-steps")
        self.assertEqual(self.page.evaluate("document.documentElement.lang"), "zh")
        self.assertIn("from=3", self.page.evaluate("location.hash"))

    def test_layers_can_be_hidden(self):
        colours = self.page.evaluate(f"{COLOURS}('timeline')")
        self.page.evaluate("document.querySelector('#legend button').click()")
        self.page.settle()
        self.assertEqual(self.page.evaluate("document.querySelector('#legend button').getAttribute('aria-pressed')"), "false")
        self.assertLess(self.page.evaluate(f"{COLOURS}('timeline')"), colours)

    def test_chinese(self):
        self.page.click_on("#language")
        self.assertEqual(self.page.text("#to-leaks"), "泄漏")
        self.assertEqual(self.page.evaluate("document.documentElement.lang"), "zh")
        self.page.click_on("#language")
        self.assertEqual(self.page.text("#to-leaks"), "Leaks")

    def test_pictures_become_files(self):
        """What the buttons save: read where the page hands it to the browser."""
        self.page.evaluate("window.saved = []; URL.createObjectURL = (blob) => { saved.push(blob); return '#'; }; HTMLAnchorElement.prototype.click = () => {}")
        for tab in ("blocks", "treemap", "stacks", "addresses"):
            self.open(tab)
            for kind, begin in (("svg", "<svg"), ("png", "\x89PNG")):
                self.page.evaluate(f"saved.length = 0, document.getElementById('{kind}').click()")
                head = self.page.evaluate("new Promise((done) => { const look = () => saved.length ? saved[0].arrayBuffer().then((b) => "
                                          "done(String.fromCharCode(...new Uint8Array(b).slice(0, 4)))) : setTimeout(look, 10); look(); })")
                self.assertEqual(head, begin.ljust(4)[:4] if kind == "png" else "<svg", (tab, kind))
        svg = self.page.evaluate("(document.getElementById('svg').click(), saved[saved.length - 1].text())")
        self.assertNotIn("NaN", svg)
        self.assertNotIn("undefined", svg)

    def test_it_plays_to_the_end(self):
        self.page.press("e")
        end = self.page.text("#moment")
        self.page.evaluate("document.getElementById('play').click()")
        self.assertEqual(self.page.text("#play"), "Stop")
        deadline = time.monotonic() + TIMEOUT_S
        while self.page.text("#play") == "Stop":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertEqual(self.page.text("#moment"), end)


class ManyTest(PageTest):
    """More blocks than have room by name: sums stay whole, and the page says so."""

    @classmethod
    def setUpClass(cls):
        cls.trace = SETUP.trace("many", "3000")
        cls.path = SETUP.page(cls.trace, flags=("--max-blocks", "500"))

    def test_bounded_and_honest(self):
        self.assertRegex(SETUP.said, r"500 blocks by name, 2,500 smaller ones in sums")
        self.assertIn("smaller blocks are in sums only", self.page.text("#foot"))
        self.assertRegex(self.page.text("#moment"), r"500 blocks and [\d.]+ [KMG]iB that no block here explains")
        peak = SETUP.answer("report", self.trace)["devices"][0]["at_peak"]["bytes"]
        parts = SETUP.answer("html", self.trace, "--max-blocks", "500")["traces"][0]["devices"][0]
        self.assertEqual(parts["peak_bytes"], peak)
        self.assertIn("smaller blocks, in sums only", self.page.text("#block-table"))


class CommandTest(unittest.TestCase):
    def gpumem(self, *arguments):
        return subprocess.run([SETUP.gpumem, "html", *map(str, arguments)], capture_output=True, text=True)

    def test_where_the_page_goes(self):
        trace = SETUP.trace("training", name="named")
        self.assertEqual(self.gpumem(trace).returncode, 0)
        self.assertTrue(trace.with_suffix(".html").exists())
        self.assertEqual(trace.with_suffix(".html").stat().st_mode, trace.stat().st_mode)
        page = subprocess.run([SETUP.gpumem, "html", str(trace), "-o", "-"], capture_output=True, check=True).stdout
        self.assertEqual(page, trace.with_suffix(".html").read_bytes())
        refused = self.gpumem(trace, "-o", trace)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is the trace itself", refused.stderr)

    def test_a_picture_on_standard_output_is_the_picture(self):
        trace, picture = SETUP.trace("training", name="drawn"), SETUP.folder / "drawn.png"
        subprocess.run([SETUP.gpumem, "plot", "peak", str(trace), "-o", str(picture)], capture_output=True, check=True)
        written = subprocess.run([SETUP.gpumem, "plot", "peak", str(trace), "-o", "-"], capture_output=True, check=True).stdout
        self.assertEqual(written[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(written, picture.read_bytes())

    def test_what_is_made_of_an_import_stands_beside_the_import(self):
        """Not in the cache, where the trace made of it is; and its name is what the page calls it."""
        snapshot = SETUP.folder / "snapshot.pickle"
        subprocess.run([SETUP.gpumem, "export", "pytorch", str(SETUP.trace("training")), "-o", str(snapshot)], check=True, stdout=subprocess.PIPE)
        for command, ending in ((("html",), ".html"), (("flame",), ".flame.html"), (("plot", "peak"), ".peak.png")):
            subprocess.run([SETUP.gpumem, *command, str(snapshot)], check=True, stdout=subprocess.PIPE)
            self.assertTrue(snapshot.with_suffix(ending).exists(), command)
        self.assertEqual(SETUP.answer("html", snapshot)["traces"][0]["about"]["file"], str(snapshot))
        self.assertEqual(self.gpumem(snapshot, "-o", snapshot).returncode, 2)

    def test_plots_are_files_of_their_kind(self):
        trace = SETUP.trace("training", name="plotted")
        plot = lambda *arguments: subprocess.run([SETUP.gpumem, "plot", *map(str, arguments)], capture_output=True)
        for ending, begin in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
            out = SETUP.folder / f"picture{ending}"
            self.assertEqual(plot("timeline", trace, "-o", out).returncode, 0)
            self.assertTrue(out.read_bytes().startswith(begin), ending)
        self.assertEqual(plot("peak", trace).returncode, 0)
        self.assertTrue((SETUP.folder / "plotted.peak.png").exists())
        self.assertEqual(plot("timeline", trace, SETUP.trace("small"), "-o", SETUP.folder / "both.svg").returncode, 0)
        self.assertEqual(plot("comparison", trace, SETUP.trace("small"), "-o", SETUP.folder / "two.png").returncode, 0)
        for wrong, words in ((("pie", trace), b"Name one of timeline"), (("timeline", trace, "-o", "x.gif"), b"End its name with"),
                             (("peak", trace, trace), b"only gpumemshim plot comparison and timeline"), (("timeline", *[trace] * 9), b"room for 8 traces")):
            done = plot(*wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn(words, done.stderr)
        lacks = plot("steps", SETUP.trace("small"))
        self.assertEqual(lacks.returncode, 3)
        self.assertIn(b"this trace has no training steps", lacks.stderr)

    def test_a_damaged_trace_is_shown_with_a_warning(self):
        whole = SETUP.trace("training", name="whole").read_bytes()
        cut = SETUP.folder / "cut.gmtrace"
        cut.write_bytes(whole[:len(whole) * 2 // 3])
        done = self.gpumem(cut, "-o", SETUP.folder / "cut.html")
        self.assertEqual(done.returncode, 4, done.stderr)
        data = json.loads(subprocess.run([SETUP.gpumem, "html", "--json", str(cut)], stdout=subprocess.PIPE).stdout)
        self.assertTrue(data["traces"][0]["about"]["warnings"])


def main(description=__doc__):
    global SETUP
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--full", action="store_true")
    arguments, rest = parser.parse_known_args()
    SETUP = Setup(arguments.build)
    return pages.run(SETUP, rest)


if __name__ == "__main__":
    sys.exit(main())

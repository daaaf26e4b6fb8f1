# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Single events of the page: each allocation and each free where the view has room for it, in a file and from `gpumemshim serve`, held against `gpumemshim sql`.

    python tests/e2e/html_events_test.py --build build/release
"""

import http.client
import json
import signal
import subprocess
import sys
import time
import unittest
import zlib

import chromium
import html_test

WAIT_S = 60
BLOCKS = "30000"  # more changes than a page has rows for
MARKS = "(document.getElementById('single').hidden ? '' : document.getElementById('single').textContent)"


def events_of(trace, first, last):
    """Number of an event -> (kind, bytes)."""
    statement = (f"select event, kind, size from events where event between {first} and {last} and kind in ('alloc', 'free') and layer = 'torch' order by event")
    rows = json.loads(subprocess.run([html_test.SETUP.gpumem, "sql", str(trace), statement, "--json"], check=True, stdout=subprocess.PIPE).stdout)["rows"]
    return {int(row["event"]): (row["kind"], int(row["size"])) for row in rows}


class ShortRunTest(html_test.PageTest):
    """All of them are in the file."""

    fragment = "#x=events&from=20&until=40"

    @classmethod
    def setUpClass(cls):
        cls.trace = html_test.SETUP.trace("training", name="events")
        cls.path = html_test.SETUP.page(cls.trace, name="events.html")

    def test_each_is_a_mark_that_says_what_it_was(self):
        self.assertRegex(self.page.evaluate(MARKS), "^1[0-9] single events: ▲ allocated, ▽ freed$")
        event = next(number for number in range(22, 40) if self.tip(number)[0].startswith("▲ 20 MiB allocated"))
        lines = self.tip(event)
        self.assertEqual(lines[1], "job/model.py:7 MLP.forward")
        self.assertIn(lines[2], ("activations · mlp", "temporaries · mlp"))
        self.assertTrue(any(line.startswith("freed: ") for line in lines), lines)
        self.assertIn(f"event {event}", " ".join(lines))
        self.page.click(*self.at((event - 20) / 20))
        self.assertIn("20 MiB", self.page.text("#block-details"))
        self.assertIn(f"event={event}", self.page.evaluate("location.hash"))

    def tip(self, event):
        self.page.hover(*self.at((event - 20) / 20))
        self.page.settle()
        return self.page.evaluate("[...document.querySelectorAll('#tip p')].map((line) => line.innerText)")

    def test_further_out_there_is_no_word_of_them(self):
        self.assertNotEqual(self.page.evaluate(MARKS), "")
        self.page.evaluate("document.getElementById('whole').click()")
        self.page.settle()
        self.assertEqual(self.page.evaluate("document.querySelector('#timeline').checkVisibility()"), True)


def said(page):
    """What the page says of single events, once it is there."""
    deadline = time.monotonic() + WAIT_S
    while not page.evaluate("document.getElementById('waiting').hidden") and time.monotonic() < deadline:
        time.sleep(0.05)
    page.settle()
    return page.evaluate(MARKS)


class LongRunTest(unittest.TestCase):
    """In a file those around the peak, from `serve` those of any place."""

    @classmethod
    def setUpClass(cls):
        cls.trace = html_test.SETUP.trace("long", BLOCKS)
        cls.path = html_test.SETUP.page(cls.trace, flags=("--max-blocks", "20000"), name="long.html")

    def test_of_a_file_others_are_said_to_be_in_serve(self):
        data = html_test.SETUP.answer("html", self.trace)["traces"][0]
        peak = data["devices"][0]["peak_event"]
        self.assertGreater(data["devices"][0]["changes_in_row"], 1)
        self.assertTrue(any(first <= peak < end for first, end in data["single_events"]))
        self.assertLess(sum(end - first for first, end in data["single_events"]), 8193)
        page = html_test.SETUP.browser.open(self.path, f"#x=events&from={peak - 40}&until={peak}")
        try:
            self.assertIn("single events", said(page))
        finally:
            page.close()
        page = html_test.SETUP.browser.open(self.path, "#x=events&from=10000&until=10060")
        try:
            self.assertEqual(said(page), "Single events of this place: gpumemshim serve long.gmtrace")
            self.assertEqual(page.complaints, [])
        finally:
            page.close()

    def test_a_stretch_that_is_asked_for_is_exact(self):
        data = html_test.SETUP.answer("html", self.trace, "--events", "10000-10200")["traces"][0]
        self.assertIn([10000, 10200], data["single_events"])
        number, seen = 0, {}
        for born, length, size in zip(data["blocks"]["born"], data["blocks"]["end"], data["blocks"]["size"]):
            number += born
            for event, kind in ((number, "alloc"), (number + length, "free")):
                if 10000 <= event < 10200:
                    seen[event] = (kind, size)
        self.assertEqual(seen, events_of(self.trace, 10000, 10199))
        for wrong in ("5-5", "9-1", "0-4097", "a-b", "-1-5"):
            done = subprocess.run([html_test.SETUP.gpumem, "html", "--json", f"--events={wrong}", str(self.trace)], capture_output=True, timeout=WAIT_S)
            self.assertEqual(done.returncode, 2, wrong)

    def test_serve_gives_them_for_the_view_and_refuses_what_is_no_stretch(self):
        server = subprocess.Popen([html_test.SETUP.gpumem, "serve", "--json", str(self.trace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            told = json.loads(server.stdout.readline())
            self.refuses(told)
            with chromium.Browser(loopback=True) as browser:
                page = browser.open_address(f"{told['address']}#x=events&from=10000&until=10060")
                deadline = time.monotonic() + WAIT_S
                while "single events:" not in page.evaluate(MARKS):
                    self.assertLess(time.monotonic(), deadline, page.evaluate(MARKS))
                    time.sleep(0.1)
                count = int(page.evaluate(MARKS).split()[0])
                self.assertEqual(count, len(events_of(self.trace, 10000, 10060)))
                self.assertIn("from=10000&until=10060", page.evaluate("location.hash"))
                self.assertEqual(page.complaints, [])
        finally:
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=WAIT_S)
        self.assertEqual((server.returncode, errors), (0, ""))

    def refuses(self, told):
        def ask(events, token=told["token"]):
            connection = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=WAIT_S)
            connection.request("GET", f"/data?token={token}&events={events}")
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, body
        for wrong in ("", "%00-5", "1-2%00", "5-5", "9-1", "0-4097", "a-b", "-1-5", "1-2-3", "%FF-5", "1-2;rm%20-rf", "--help", "1-99999999999999999999", "1" * 5000 + "-2"):
            self.assertEqual(ask(wrong)[0], 400, wrong)
        self.assertEqual(ask("1-2", token="x" * 32)[0], 403)
        status, body = ask("10000-10200")
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(zlib.decompress(body)), html_test.SETUP.answer("html", self.trace, "--events", "10000-10200"))
        self.assertEqual(ask("20000-20100")[0], 200)
        self.assertEqual(ask("10000-10200"), (200, body), "who comes back gets the same")


if __name__ == "__main__":
    sys.exit(html_test.main(__doc__))

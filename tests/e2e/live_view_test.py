# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim live` in a terminal (tmux) beside a program that trains: keys, sizes, the program's end, kill -9, another start; and its JSON against `gpumemshim report`'s.

    python tests/e2e/live_view_test.py --build build/release
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

import live_programs
import truth

SETUP = None
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "json.md"

class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, folder, command, columns=80, rows=24, **environment):
        self.socket = str(folder / "tmux")
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **environment}
        self.environment.pop("TMUX", None)
        self.call("-f", "/dev/null", "new-session", "-d", "-c", str(folder), "-x", str(columns), "-y", str(rows), *map(str, command))

    def call(self, *words):
        return subprocess.run(["tmux", "-u", "-S", self.socket, *words], env=self.environment, capture_output=True, text=True).stdout

    def keys(self, *keys):
        self.call("send-keys", *keys)

    def screen(self, escapes=False):
        return self.call("capture-pane", "-p", *(["-e"] if escapes else []))

    def resize(self, columns, rows):
        self.call("resize-window", "-x", str(columns), "-y", str(rows))

    def is_open(self):
        return self.call("list-sessions") != ""

    def close(self):
        self.call("kill-server")


class LiveViewTest(live_programs.LiveProgramTest):
    def setUp(self):
        self.setup = SETUP
        super().setUp()

    def view(self, *arguments, columns=80, rows=24, **more):
        command = [SETUP.gpumem, "live", "--interval", "0.1", *arguments]
        environment = {"XDG_RUNTIME_DIR": str(self.folder), **more}
        terminal = Terminal(self.folder, command, columns, rows, **environment)
        self.addCleanup(terminal.close)
        return terminal

    def wait_for(self, terminal, *wanted):
        """The screen that has all of these, which are regular expressions."""
        screen, until = "", time.monotonic() + live_programs.WAIT_S
        while time.monotonic() < until:
            screen = terminal.screen()
            if all(re.search(each, screen) for each in wanted):
                return screen
            time.sleep(0.05)
        return self.fail(f"no {wanted} on this screen:\n{screen}")

    @unittest.skipUnless(shutil.which("tmux"), "no tmux here")
    def test_keys_sizes_and_the_end(self):
        program = self.start()
        self.step(program, 3)
        trace = str(self.folder / "run.gmtrace")
        terminal = self.view(trace)
        self.wait_for(terminal, "train +pid", "running", "3 steps", r"train.py:\d+ remember", "parameters", "q quit")
        self.step(program, 2)
        self.wait_for(terminal, "5 steps", r"15\.0 MiB")
        terminal.keys("/")
        terminal.keys("-l", "remember")
        terminal.keys("Enter")
        self.wait_for(terminal, r'holding "remember": 1 of')
        terminal.keys("Escape")
        terminal.keys("s")
        self.wait_for(terminal, r"sort \(change\)")
        terminal.keys("?")
        self.wait_for(terminal, "Keys of gpumemshim live")
        terminal.keys("x")
        self.wait_for(terminal, "q quit")
        terminal.keys("m")
        terminal.keys("-l", "here it is")
        terminal.keys("Enter")
        self.wait_for(terminal, "Marked: here it is")
        terminal.keys("d")
        taken = self.folder / re.search(r"so far is in (\S+)", self.wait_for(terminal, r"so far is in \S+"))[1]
        report = json.loads(subprocess.run([SETUP.gpumem, "report", "--json", taken], capture_output=True, text=True).stdout)
        now = self.once(trace)["processes"][0]["devices"][0]["now"]
        self.assertEqual([report["devices"][0]["end"][f"{measure}_bytes"] for measure in ("allocated", "reserved")], [now["allocated_bytes"], now["reserved_bytes"]])
        terminal.keys("p")
        self.wait_for(terminal, "paused")
        self.step(program)
        terminal.keys("p")
        self.wait_for(terminal, "6 steps")
        for columns, rows in ((200, 60), (40, 10), (80, 24)):
            terminal.resize(columns, rows)
            screen = self.wait_for(terminal, "running")
            self.assertLessEqual(max(map(len, screen.splitlines())), columns)
        self.finish(program)
        self.wait_for(terminal, "ended", "6 steps", "remember")
        terminal.keys("q")
        until = time.monotonic() + live_programs.WAIT_S
        while terminal.is_open() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(terminal.is_open())
        marks = json.loads(subprocess.run([SETUP.gpumem, "timeline", "--json", trace], capture_output=True, text=True).stdout)["marks"]
        self.assertIn("here it is", [mark["text"] for mark in marks])

    @unittest.skipUnless(shutil.which("tmux"), "no tmux here")
    def test_kill_and_another_start(self):
        first = self.start("first.gmtrace")
        self.step(first, 2)
        terminal = self.view(str(self.folder), NO_COLOR="1")
        self.wait_for(terminal, "running", "2 steps")
        os.kill(self.pid_of("first.gmtrace"), signal.SIGKILL)
        first.wait(timeout=live_programs.WAIT_S)
        self.wait_for(terminal, "killed", "2 steps")
        second = self.start("second.gmtrace")
        self.step(second, 4)
        self.wait_for(terminal, "killed", "> running", "4 steps")
        terminal.keys("Up")
        self.wait_for(terminal, "> killed", "2 steps")
        self.assertNotRegex(terminal.screen(escapes=True), "\x1b\\[3[0-7]m", "NO_COLOR")

    def test_the_numbers_are_those_of_report_also_in_a_series(self):
        # Some 48 KiB: more than one file of a series, and far from the limit, at which the first file would go.
        for name, more in {"plain": {}, "series": {"GPUMEMSHIM_MAX_SIZE": "128K"}}.items():
            trace = self.folder / f"{name}.gmtrace"
            program = self.start(trace.name, **more)
            self.step(program, 40)
            running = self.once(trace)["processes"][0]
            self.assertEqual(running["state"], "running")
            self.finish(program)
            live = self.once(trace)["processes"][0]
            self.assertEqual((live["state"], live["steps"]["count"], live["losses"]["total"]), ("ended", 40, 0))
            ask = lambda *words: json.loads(subprocess.run([SETUP.gpumem, *words, "--json", trace], capture_output=True, text=True).stdout)
            report, end = ask("report"), ask("at", "end")
            device, reported = live["devices"][0], report["devices"][0]
            for measure in ("allocated", "reserved", "other", "total"):
                self.assertEqual(device["now"][f"{measure}_bytes"], reported["end"][f"{measure}_bytes"], measure)
            self.assertEqual(device["peak"]["allocated_bytes"], reported["peak"]["allocated_bytes"] if "allocated_bytes" in reported["peak"] else device["peak"]["allocated_bytes"])
            self.assertEqual(live["categories"], end["categories"])
            self.assertEqual(live["lines"][0]["site"].split()[-1], "remember")
            documented = set(re.findall(r"`([a-z_]+)`", DOCS.read_text()))
            self.assertLessEqual(keys_of(live) - set(live["categories"]), documented)


def keys_of(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


if __name__ == "__main__":
    truth.run_tests(globals())

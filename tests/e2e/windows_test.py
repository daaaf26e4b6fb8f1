# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A window of a program raises no alarm that the whole run does not: what a report says of each step, each stage, each tenth of the run and, with --full, of 200 random
windows, is what it says of the run, or that nothing is wrong. Windows without the growth, the failure or the free space have no evidence of it.

    python tests/e2e/windows_test.py --build build/release [--full]
"""

import json
import pathlib
import random
import subprocess
import sys
import unittest

import truth

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "corpus"))
import corpus  # noqa: E402

SETUP = None
RARER = ("test_every_program", "test_random_windows")
ALARMS = ("fragmented", "nearly_full", "growing", "out_of_memory")  # the worst last
FEW = ("lora", "conv")


def severity(kind):
    return ALARMS.index(kind) + 1 if kind in ALARMS else 0


class WindowsTest(unittest.TestCase):
    def ask(self, command, name, *flags):
        done = subprocess.run([str(SETUP.gpumem), command, *flags, str(corpus.record(name, SETUP))], capture_output=True, text=True, timeout=300, check=False)
        self.assertIn(done.returncode, (0, 4), f"{command} {' '.join(flags)} {name}: {done.stderr}")
        return done.stdout

    def verdict(self, name, *window):
        return json.loads(self.ask("report", name, "--json", *window))["verdict"]["kind"]

    def named_windows(self, name):
        steps = [step["step"] for step in json.loads(self.ask("steps", name, "--json"))["steps"]]
        stages = [stage["derived"] or stage["stage"] for stage in json.loads(self.ask("stages", name, "--json"))["stages"]]
        windows = [("--from", f"step {number}", "--to", f"step {number}") for number in steps]
        return windows + [("--from", stage, "--to", stage) for stage in stages if stage]

    def duration(self, name):
        return json.loads(self.ask("info", name, "--json"))["duration_ns"]

    def tenths(self, name):
        whole = self.duration(name)
        return [("--from", f"{whole * i // 10}ns", "--to", f"{whole * (i + 1) // 10}ns") for i in range(10)]

    def check(self, name, windows):
        whole = self.verdict(name)
        for window in windows:
            found = self.verdict(name, *window)
            # Less than the run's own is evidence of the window: memory that is nearly full, in a run that ends by a failed request.
            self.assertLessEqual(severity(found), severity(whole), f"{name} {' '.join(window)}: {found}, the run: {whole}")

    def test_steps_stages_and_tenths_of_healthy_programs(self):
        for name in FEW:
            with self.subTest(name):
                self.assertNotIn(self.verdict(name), ALARMS)
                self.check(name, self.named_windows(name)[::4] + self.tenths(name)[::4])

    def test_every_program(self):
        for name in corpus.CORPUS:
            with self.subTest(name):
                self.check(name, self.named_windows(name) + self.tenths(name))

    def test_random_windows(self):
        chance = random.Random(48)
        for name in corpus.CORPUS:
            whole = self.duration(name)
            windows = []
            for _ in range(200 // len(corpus.CORPUS) + 1):
                begin, end = sorted(chance.randrange(whole) for _ in range(2))
                windows.append(("--from", f"{begin}ns", "--to", f"{end}ns"))
            with self.subTest(name):
                self.check(name, windows)


if __name__ == "__main__":
    truth.run_tests(globals(), rarer=RARER)

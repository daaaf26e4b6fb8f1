# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How many programs with a known fault are answered right on the first screen, which is what `gpumemshim report` prints: cause, line, and a remedy whose saving a run of the mended program has, too.

    python tests/e2e/bugs_test.py --build build/release [--full]
    python tests/e2e/bugs_test.py --build build/release --count [NAME...]     # a line a program, then the counts; docs/claims.md

tests/e2e/bugs has the programs, tests/e2e/bugs/truths.py what is true of each.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import truth

FOLDER = pathlib.Path(__file__).resolve().parent / "bugs"
MENDED = pathlib.Path(__file__).resolve().parent / "claims" / "mended.py"
sys.path.insert(0, str(FOLDER))
from truths import TRUTHS  # noqa: E402

SETUP = None
FULL = False
QUICK = ("02_create_graph", "14_grads_in_forward", "21_load_onto_gpu0", "32_batch_finder", "c9_bounded_replay", "m09_inference_out_of_memory", "m11_method_named_update")
KNOWN_WRONG = ("20_pinned_power_of_two", "33_engine_buffers")  # docs/claims.md says what
MOST_LINES = 40
TOLERANCE, ROUNDING = 0.05, 2 << 20
ALARMS = "GROWING|FRAGMENTED|OUT OF MEMORY|FULL"


class Answer:
    """A program, recorded once, and all that is wrong with its first screen."""

    def __init__(self, name, folder):
        self.name, self.known, self.program = name, TRUTHS[name], FOLDER / f"{name}.py"
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir(exist_ok=True)
        more = {"SIMCUDA_CAPACITY_MB": str(self.known.capacity_mb)} if self.known.capacity_mb else {}
        # What is asked is whether an owner is named, not how far a look comes while other tests have the processors.
        self.environment = {**truth.environment_of(truth.Case("none", devices=self.known.devices), SETUP), "GPUMEMSHIM_OWNERS_MS": "5000", **more}
        self.arguments = [str(self.folder / "last.pt")] if self.known.prepares else list(self.known.arguments)
        self.missing = self.record()
        self.wrong = [] if self.missing else list(self.faults())

    def run(self, command, environment=None):
        return subprocess.run(command, env=environment or self.environment, capture_output=True, text=True, timeout=SETUP.timeout_s, stdin=subprocess.DEVNULL, cwd=self.folder)

    def record(self):
        """What the program lacks; "" where it was recorded."""
        if self.known.prepares:
            self.run([*SETUP.command(self.program), *self.arguments, "prepare"])
        trace = self.folder / "run.gmtrace"
        done = self.run(SETUP.recording(trace, *SETUP.command(self.program), *self.arguments))
        if lacks := re.search(r"No module named '(\w+)'", done.stderr):
            return lacks[1]
        asking = truth.environment_of_plans(SETUP, GPUMEMSHIM_SIMCUDA=str(truth.ROOT / "simcuda"), GPUMEMSHIM_INTERPRETER=SETUP.python)
        self.screen = self.run([SETUP.gpumem, "report", str(trace)], asking).stdout
        self.report = json.loads(self.run([SETUP.gpumem, "report", "--json", str(trace)], asking).stdout)
        self.check = self.run([SETUP.gpumem, "leaks", "--check", str(trace)], asking).returncode
        return ""

    def faults(self):
        head = " ".join(self.screen.split())
        if len(self.screen.splitlines()) > MOST_LINES:
            yield f"more than {MOST_LINES} lines"
        if self.known.sound:
            if alarm := re.search(rf"\b({ALARMS})\b", head):
                yield f"an alarm: {alarm[1]}"
            if self.check not in (0, 7):
                yield f"leaks --check ends with {self.check}"
        if not re.search(self.known.says, head):
            yield f"does not say {self.known.says}"
        if not self.known.sound and (said := re.search(self.known.never, head)):
            yield f"says {said[0]}"
        lines = self.program.read_text(encoding="utf-8").splitlines()
        named = {lines[int(number) - 1] for number in re.findall(rf"{self.name}\.py:(\d+)", head)}
        if self.known.line and not any(text in line for text in self.known.line for line in named) and not (self.known.owner and self.known.owner in head):
            yield f"names none of {self.known.line}"
        if self.known.saves:
            yield from self.wrong_saving()

    def claimed(self):
        """(peak, peak with the remedy) as they are said first."""
        if self.known.saves == "allocated":
            found = [(max(device["peak"]["allocated_bytes"] for device in self.report["devices"]), remedy["peak_without_bytes"]) for remedy in self.report["remedies"]]
        else:
            told = self.report["what_if"] or {}
            recorded = (told.get("recorded") or {}).get("peak_reserved_bytes", 0)
            found = [(recorded, change["peak_reserved_bytes"]) for change in told.get("changes") or []]
            if self.known.mend == "expandable_segments":
                found = [(recorded, told["other"]["peak_reserved_bytes"])] if told.get("other") else []
        return found[0] if found else None

    def wrong_saving(self):
        claimed = self.claimed()
        if claimed is None:
            yield "no saving"
            return
        program, remedy = self.program, self.known.mend
        if not isinstance(remedy, str):
            text = self.program.read_text(encoding="utf-8")
            for old, new in [remedy] if isinstance(remedy[0], str) else remedy:
                assert old in text, old
                text = text.replace(old, new)
            program, remedy = self.folder / f"{self.name}.py", "none"
            program.write_text(text, encoding="utf-8")
        done = self.run([*SETUP.command(MENDED), remedy, str(program), *self.arguments])
        if done.returncode:
            yield "the mended program fails: " + " ".join(done.stderr.split()[-30:])
            return
        peaks = truth.last_json_line(done.stdout)
        saving, real = claimed[0] - claimed[1], claimed[0] - peaks[self.known.saves]
        if abs(saving - real) > max(TOLERANCE * real, ROUNDING):
            yield f"claims a saving of {saving} B; it is {real} B"


def answers(names):
    """Of each program, as soon as it and those before it are known."""
    with tempfile.TemporaryDirectory(prefix="gpumemshim-bugs-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda name: Answer(name, folder), names)


class BugsTest(unittest.TestCase):
    def test_the_first_screen_is_right(self):
        for answer in answers(TRUTHS if FULL else QUICK):
            with self.subTest(program=answer.name):
                if answer.missing:
                    self.skipTest(f"{answer.missing} is not installed")
                if answer.name not in KNOWN_WRONG:
                    self.assertEqual(answer.wrong, [], answer.screen)


def count(names):
    found = []
    for answer in answers(names or TRUTHS):
        found.append(answer)
        print(f"{answer.name:36}", "not run: " + answer.missing if answer.missing else "; ".join(answer.wrong) or "right", flush=True)
    for kind, title in (("[0-9c]", "programs after public reports"), ("m", "minimal programs")):
        run = [answer for answer in found if re.match(kind, answer.name) and not answer.missing]
        print(f"{title}: {sum(not answer.wrong for answer in run)} of {len(run)} right on the first screen")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", nargs="*", metavar="NAME", help="print what is right and wrong, and test nothing")
    parser.add_argument("--full", action="store_true", help="all programs")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    SETUP.quick = False  # with fewer modules the collector runs at other times, and lets go of cycles in the midst of a program
    if arguments.count is not None:
        count(arguments.count)
    else:
        unittest.main(argv=rest)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim leaks` on programs that leak and programs that do not (tests/e2e/leaks): every leak is found by its line, and nothing else is called one.

    python tests/e2e/leaks_test.py --build build/release [--full]
    python tests/e2e/leaks_test.py --build build/release --table     # docs/leaks.md
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

import truth

SETUP = None
FULL = False
FILES = [path for path in sorted((pathlib.Path(__file__).resolve().parent / "leaks").glob("*.py")) if path.name != "registry.py"]
# What a quick run looks at: each kind of leak, and what looks most like one.
QUICK = ("batches_of_all_sizes", "cache_by_length_that_settles", "half_a_kilobyte_beside_much_noise", "answers_kept_by_a_server",
         "losses_summed_in_an_evaluation_with_graphs", "a_test_after_the_training", "a_full_buffer_that_is_sampled_at_random", "the_last_five_snapshots",
         "five_folds_of_eight_steps", "pinned_batches_that_an_audit_keeps", "three_kinds_of_request_and_a_cache_of_twenty")
REPEATED = ("half_a_kilobyte_beside_much_noise", "answers_kept_by_a_server", "cache_by_length_that_settles", "a_thread_that_keeps")
REPEATS = 10


def load(path):
    """The registry of a file of programs: name -> (expected lines, lines that may grow besides, iterations or None)."""
    return truth.last_json_line(truth.run(SETUP.command(path), SETUP, truth.environment_of(truth.Case("none"), SETUP)))


def variable_of(row):
    """Of the program, that was seen to keep the row's memory, as it is in a line that adds to it: "kept." of kept[*]."""
    name = re.match(r"(?:.*: )?(\w+)", row["owner_path"] or "")
    return f"{name[1]}." if name else ""


class Outcome:
    def __init__(self, path, name, folder, repeat=0):
        trace = pathlib.Path(folder) / f"{name}.{repeat}.gmtrace"
        truth.run(SETUP.recording(trace, *SETUP.command(path), name), SETUP, truth.environment_of(truth.Case("none"), SETUP))
        self.answer = json.loads(truth.run([SETUP.gpumem, "leaks", "--json", str(trace)], SETUP))
        lines = path.read_text(encoding="utf-8").splitlines()
        self.rows = [row for place in (*self.answer["devices"], self.answer["host"]) for row in place.get("leaks", [])]
        # A row is known by the line that allocates, by what was seen to keep it, and by a line that may.
        self.growing = [(lines[row["line"] - 1].strip() if row["file"] == str(path) else f"{row['file']}:{row['line']} ({row['kind']})") + "\n" + (row["candidate_code"] or "") + "\n" + variable_of(row)
                        for row in self.rows if row["status"] == "growing"]
        self.headlines = [device["leaks_headline"] for device in self.answer["devices"]]

    def missed(self, expected):
        return [wanted for wanted in expected if not any(self.knows(line, wanted) for line in self.growing)]

    def false_alarms(self, expected, also):
        return [line for line in self.growing if not any(self.knows(line, known) for known in (*expected, *also))]

    @staticmethod
    def knows(line, wanted):
        variable = line.rpartition("\n")[2]
        return wanted in line or bool(variable) and wanted.startswith(variable)


def outcomes(path, names, repeats=1):
    """{(name, repeat): Outcome}, a process for each processor at a time."""
    with tempfile.TemporaryDirectory(prefix="gpumemshim-leaks-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(name, i): pool.submit(Outcome, path, name, folder, i) for name in names for i in range(repeats)}
        return {key: job.result() for key, job in jobs.items()}


class LeaksTest(unittest.TestCase):
    def test_every_leak_is_found_and_nothing_else(self):
        for path in FILES:
            known = load(path)
            names = [name for name in known if FULL or name in QUICK]
            for (name, _), outcome in outcomes(path, names).items():
                expected, also, iterations = known[name]
                with self.subTest(file=path.name, program=name, said=outcome.headlines):
                    self.assertEqual(outcome.missed(expected), [], outcome.growing)
                    self.assertEqual(outcome.false_alarms(expected, also), [])
                    if iterations is not None:
                        self.assertEqual(outcome.answer["leak_loops"][-1]["iterations"], iterations)

    def test_the_same_program_gets_the_same_answer(self):
        for path in FILES:
            names = [name for name in load(path) if name in REPEATED]
            found = outcomes(path, names if FULL else names[:1], REPEATS if FULL else 2)
            for name in names if FULL else names[:1]:
                answers = {tuple((row["status"], row["line"], row["bytes_per_iteration"]) for row in outcome.rows if row["status"] == "growing")
                           for (of, _), outcome in found.items() if of == name}
                with self.subTest(program=name):
                    self.assertEqual(len(answers), 1, answers)


def table():
    """Rows of docs/leaks.md, a table a file of programs."""
    for path in FILES:
        print(f"\n{path.name}\n\n| program | leaks | found | false alarms | first sentence |\n|---|---:|---:|---:|---|")
        known = load(path)
        found = outcomes(path, known)
        for name, (expected, also, _) in known.items():
            outcome = found[name, 0]
            sentence = outcome.headlines[0] if outcome.headlines else ""
            print(f"| `{name}` | {len(expected)} | {len(expected) - len(outcome.missed(expected))} | {len(outcome.false_alarms(expected, also))} | "
                  f"{sentence.replace('tests/e2e/leaks/', '').replace('<locals>.', '')} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", action="store_true", help="print the table of docs/leaks.md and test nothing")
    parser.add_argument("--full", action="store_true", help="all programs, and each answer ten times")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    if arguments.table:
        table()
    else:
        unittest.main(argv=rest)

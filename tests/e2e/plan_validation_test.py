# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""bench/plan_validation: its files of cases, its page, and that a case of which nothing but PyTorch is needed says what docs/plan-validation.md shows.

    python tests/e2e/plan_validation_test.py --build build/release
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "lib"))
import validation  # noqa: E402
import validation_table  # noqa: E402

PAGE = ROOT / "docs" / "plan-validation.md"
GPUS = '[one]\nname = "NVIDIA One"\ndevice = "A100-40"\nmemory_mib = 1000\n'
HEAD = '[source]\nname = "Them"\naddress = "https://example.org"\nwhat = "table"\nscript = "s.py"\ngpu = "one"\ntorch = "2.2"\nmetric = "max_allocated"\nunit = "GB"\n'
CASE = '[[case]]\nname = "{}"\nwhat = "a net"\narguments = "--x 1"\npublished = {}\n'
SETUP = None


class CasesTest(unittest.TestCase):
    def load(self, document):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "gpus.toml").write_text(GPUS)
            (pathlib.Path(folder) / "them.toml").write_text(document)
            return validation.load(pathlib.Path(folder))

    def results(self, *predicted):
        cases = self.load(HEAD + "".join(CASE.format(number, 2.0) for number in range(len(predicted))))
        return [validation.Result(case, value, 1.0) for case, value in zip(cases, predicted)]

    def test_what_cases_share_stands_in_the_source(self):
        first, second = self.load(HEAD + CASE.format("a", 1.5) + CASE.format("b", 2) + 'unit = "MiB"\nslow = true\n')
        self.assertEqual((first.unit, second.unit, first.slow, second.slow), ("GB", "MiB", False, True))
        self.assertEqual(first.source, second.source)
        self.assertEqual(first.gpu.flags(), ["--device", "A100-40", "--memory", "1000MiB"])

    def test_a_string_keeps_the_digits_of_the_source(self):
        first, second = self.load(HEAD + CASE.format("a", '"60.0"') + CASE.format("b", 2.9))
        self.assertEqual((first.published, first.digits, second.digits), (60.0, 1, 2))
        with self.assertRaises(validation.Malformed):
            self.load(HEAD + CASE.format("a", '"about 60"'))

    def test_malformed_files_are_refused(self):
        for document in ("nonsense", HEAD, HEAD + CASE.format("a", -1), HEAD + CASE.format("a", 1) + 'gpu = "two"\n',
                         HEAD + CASE.format("a", 1) + "color = 1\n", HEAD + CASE.format("a", 1) * 2):  # fmt: skip
            with self.subTest(document=document), self.assertRaises(validation.Malformed):
                self.load(document)

    def test_error_and_median(self):
        results = self.results(2.02, 1.9, None)
        self.assertEqual([each.error and round(each.error, 6) for each in results], [0.01, -0.05, None])
        self.assertAlmostEqual(validation.median_error(results), 0.03)
        self.assertIsNone(validation.median_error(self.results(None)))

    def test_the_page_names_every_miss(self):
        page = validation_table.render(self.results(2.0, 2.1, None), "2026-01-01", "torch 2")
        self.assertIn("| 2.00 GB | 2.10 GB | +5.00 % | - | - |", page)
        self.assertIn("| 1 % | 1 | 33 % |", page)
        self.assertIn("| Them | 3 | 2.50 % | 5.00 % |", page)
        self.assertEqual(page.count("- **a net** (Them)"), 2)

    def test_a_range_holds_in_the_metrics_terms(self):
        case = self.load(HEAD + CASE.format("a", 2.0))[0]
        gigabyte, context = 10**9, (100 * 10**6, 200 * 10**6)

        def result(predicted, low, high, bounded=True):
            return validation.Result(case, predicted, 1.0, range=validation.Range(int(low * gigabyte), 3 * gigabyte, int(high * gigabyte), bounded, context))

        self.assertTrue(result(2.0, 2.9, 3.2).held(without_context=True))
        within = result(1.85, 2.9, 3.2)  # off by 0.15, which only the context's part covers
        self.assertEqual((within.held(), within.held(without_context=True)), (True, False))
        self.assertFalse(result(1.7, 2.9, 3.2).held())
        self.assertTrue(result(1.7, 2.9, 3.2, bounded=False).held())
        self.assertFalse(result(2.3, 2.9, 3.2, bounded=False).held())
        self.assertAlmostEqual(within.range.width, 0.1)
        self.assertIsNone(validation.Result(case, 2.0, 1.0).held())
        self.assertIn("| by the context | 10 % |", validation_table.row(within))

    def test_peaks_are_the_answers_unless_the_source_read_them_otherwise(self):
        answer, reported = {"peak": {"allocated_bytes": 7, "reserved_bytes": 9}}, {"overridden": [], "max_allocated": 5, "reserved": 8}
        self.assertEqual([validation.bytes_of(metric, answer, reported) for metric in ("max_allocated", "max_reserved", "reserved")], [7, 9, 8])
        self.assertEqual(validation.bytes_of("max_allocated", answer, {**reported, "overridden": ["max_allocated"]}), 5)

    def test_kept_results_come_back_and_failures_do_not(self):
        first, second = self.load(HEAD + CASE.format("a", 2.0) + CASE.format("b", 2.0))
        printed = validation.Range(1, 2, 3, True, (1, 1))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kept.jsonl"
            self.assertEqual(validation.kept(path, [first]), {})
            done = validation.Result(first, 2.1, 1.0, 5, range=printed)
            for result in (done, validation.Result(second, None, 1.0, failure="no")):
                validation.keep(path, result)
            self.assertEqual(validation.kept(path, [first, second]), {first.name: done})
            changed = dataclasses.replace(first, arguments="--x 2")
            self.assertEqual(validation.kept(path, [changed, second]), {})


class RepositoryTest(unittest.TestCase):
    def test_every_case_names_a_source_and_a_script(self):
        cases = validation.load()
        self.assertGreaterEqual(len(cases), 90)
        self.assertGreaterEqual(len({case.source.project for case in cases}), 10)
        for case in cases:
            with self.subTest(case=case.name):
                self.assertTrue((validation.CASES / case.script).exists())
                self.assertTrue(case.source.address.startswith("https://"))

    def test_the_page_shows_every_case_and_explains_every_miss(self):
        page = PAGE.read_text()
        for case in validation.load():
            with self.subTest(case=case.name):
                self.assertIn(f"| {case.source.name} | {case.what} |", page)
        self.assertNotIn(": not explained.\n", page)  # what a miss says whose case says nothing
        self.assertNotIn("failed", page)

    def test_a_case_says_what_the_page_shows(self):
        case = next(case for case in validation.load() if case.name == "gpt/flash")
        environment = validation.Environment(SETUP.build / "none", SETUP.build / "bin" / "gpumemshim", SETUP.python)
        with tempfile.TemporaryDirectory() as folder:
            command = validation.command_of(case, environment, pathlib.Path(folder) / "plan.gmtrace")
            command = [SETUP.python if part == environment.python else part for part in command]
            settings = validation.settings_of(case, environment, folder)
            done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=240)
            result = validation.answered(case, done, folder, 0)
        self.assertEqual(result.failure, "", done.stderr[-2000:])
        self.assertIn(validation_table.row(result), PAGE.read_text())


def main():
    global SETUP
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / ".venv" / "bin" / "python"))
    SETUP, rest = parser.parse_known_args()
    SETUP.build = SETUP.build.resolve()
    if not pathlib.Path(SETUP.python).exists():
        print("skipped: no Python with torch (scripts/bootstrap installs it)")
        return 77
    return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

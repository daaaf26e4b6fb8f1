# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What is kept of a trace changes no answer: every command says the same without it, while it is made, and from it.

    python tests/e2e/saved_answers_test.py --build build/release
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import diff_pairs
import truth

SETUP = None


def moments_of(report):
    """Arguments of `gpumemshim at` for moments all over a trace."""
    duration = report["duration_ns"]
    times = [["at", f"{duration * i // 8}ns"] for i in range(1, 8)]
    return [["at", "peak"], ["at", "end"], ["at", "step", "1"], ["at", "step", "2"], ["at", "step", "99"], ["at", "no such mark"], *times]


class SavedAnswersTest(unittest.TestCase):
    COMMANDS = (["report"], ["report", "--full"], ["peak"], ["leaks"], ["steps"], ["stages"], ["modules"], ["model"], ["explain", "leak"], ["fragmentation"], ["forecast"], ["table"], ["table", "--temporary"], ["table", "--total"], ["tree", "--leaks"], ["sizes"], ["flame"], ["flame", "--by", "category"])
    QUERIES = (
        *(f"SELECT * FROM {table} ORDER BY ALL" for table in ("blocks", "segments", "stacks", "frames", "steps", "modules", "processes", "live_at('peak')", "events", "samples")),
        "SELECT module, stage, line, category, count(*) FROM blocks GROUP BY ALL ORDER BY module, stage, line, category",
    )

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-saved-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.trace = diff_pairs.record(SETUP, cls.folder, diff_pairs.EVERY_DAY["batch"], False, "--batch", "2", "--length", "128", "--steps", "3")

    def setUp(self):
        self.index = self.folder / "index"
        shutil.rmtree(self.index, ignore_errors=True)

    def gpumem(self, above, *arguments, **more):
        """Exit code, output and complaints of a command."""
        environment = {**os.environ, "GPUMEMSHIM_INDEX_DIR": str(self.index), "GPUMEMSHIM_INDEX_ABOVE": above, "XDG_CACHE_HOME": str(self.folder / "cache"), **more}
        done = subprocess.run([SETUP.gpumem, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment)
        return done.returncode, done.stdout, done.stderr

    def kept(self):
        name = pathlib.Path(self.trace).name
        return sorted(path.suffix for path in self.index.glob(f"{name}.*")) if self.index.exists() else []

    def same_everywhere(self, trace):
        report = json.loads(self.gpumem("never", "info", trace, "--json")[1])
        commands = [*self.COMMANDS[:1], *self.COMMANDS, *moments_of(report)]  # the first one makes it, and is asked again
        for command in commands:
            arguments = [*command, trace, "--json"]
            plain = self.gpumem("never", *arguments)
            with self.subTest(arguments=arguments):
                self.assertEqual(self.gpumem("0", *arguments), plain)
        self.assertEqual(self.kept(), [".analysis", ".answers"])

    def test_training(self):
        self.same_everywhere(self.trace)

    def test_rows_are_the_same(self):
        plain = [self.gpumem("never", "sql", self.trace, query, "--json") for query in self.QUERIES]
        if "libduckdb" in plain[0][2]:
            self.skipTest(plain[0][2])
        shutil.rmtree(self.index)
        for _ in ("kept meanwhile", "of what is kept"):
            for query, wanted in zip(self.QUERIES, plain):
                with self.subTest(query=query):
                    self.assertEqual(self.gpumem("0", "sql", self.trace, query, "--json"), wanted)
            self.assertEqual(self.kept(), [".analysis", ".answers", ".duckdb", ".events"])
            for index in (*self.index.glob("*.duckdb"), *self.index.glob("*.events")):
                index.unlink()

    def test_small_traces_keep_nothing(self):
        trace = self.trace
        self.gpumem("4MiB", "report", trace)
        self.gpumem("never", "report", trace)
        self.assertEqual(self.kept(), [])
        self.gpumem("0", "report", trace)
        self.assertEqual(self.kept(), [".analysis", ".answers"])

    def test_damaged_traces_keep_nothing(self):
        trace = self.trace
        damaged = self.folder / "damaged.gmtrace"
        damaged.write_bytes(pathlib.Path(trace).read_bytes()[:-1000])
        code, _, _ = self.gpumem("0", "report", damaged)
        self.assertEqual(code, 4)
        self.assertEqual(self.kept(), [])

    def test_what_is_kept_may_be_damaged_or_not_be_writable(self):
        trace = self.trace
        plain = self.gpumem("never", "report", trace)
        self.gpumem("0", "report", trace)
        for path in self.index.glob("*"):
            bytes_ = bytearray(path.read_bytes())
            for at in range(0, len(bytes_), max(1, len(bytes_) // 50)):
                bytes_[at] ^= 0x55
            path.write_bytes(bytes_)
        self.assertEqual(self.gpumem("0", "report", trace), plain)
        shutil.rmtree(self.index)
        self.index.write_text("no folder")
        self.assertEqual(self.gpumem("0", "report", trace), plain)
        self.index.unlink()


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Files that people attack importers with, given to `gpumemshim report`: exit code 3, a sentence that says where, nothing run, bounded memory. And good
files cut at every opcode, which says so. And files that are made to take memory or time without end (import_bombs.py): 3 MB each, with --full 400 MB."""

import argparse
import os
import pathlib
import pickletools
import resource
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
import import_bombs  # noqa: E402
import make_import_corpus as corpus  # noqa: E402

MOST_BYTES = 1 << 30
EVERYDAY_BYTES, FULL_BYTES = 3_000_000, 400_000_000
MOST_CPU_SECONDS = 60
GPUMEM = None
FULL = False


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))


class HostileTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpumemshim-hostile-")
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def gpumem(self, *arguments, **variables):
        return subprocess.run(
            [GPUMEM, *map(str, arguments)],
            env={**os.environ, "XDG_CACHE_HOME": str(self.path / "cache"), **variables},
            preexec_fn=limit_memory, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    def written(self, name, content):
        file = self.path / f"{name}.pickle"
        file.write_bytes(content)
        return file

    def test_nothing_runs(self):
        for name, content in corpus.hostile(self.path).items():
            with self.subTest(name):
                done = self.gpumem("report", self.written(name, content))
                if name in ("cyclic_snapshot", "wrong_types"):  # plain values, of odd shapes
                    self.assertIn(done.returncode, (0, 3), done.stderr)
                else:
                    self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                    self.assertIn(f"{name}.pickle", done.stderr)
        self.assertFalse((self.path / corpus.MARKER).exists(), "a pickle was run")

    def test_says_what_it_would_run(self):
        done = self.gpumem("report", self.written("system", corpus.hostile(self.path)["system4"]))
        self.assertIn("would import posix.system", done.stderr)
        self.assertRegex(done.stderr, r"byte \d+: STACK_GLOBAL")

    def test_good_files_of_every_protocol(self):
        answers = set()
        for name, content in corpus.good().items():
            with self.subTest(name):
                done = self.gpumem("report", "--json", self.written(name, content))
                self.assertEqual(done.returncode, 0, done.stderr)
                if name.startswith("snapshot"):
                    answers.add(done.stdout[done.stdout.index('"devices"') :].replace(name, ""))
        self.assertEqual(len(answers), 1, "protocols give different answers")

    def test_bombs(self):
        """Read, or refused with a sentence; never killed for want of memory or time."""
        refused = 0
        for bomb in import_bombs.BOMBS:
            with self.subTest(bomb.__name__):
                file = self.written(bomb.__name__, bomb(FULL_BYTES if FULL else EVERYDAY_BYTES))
                done = self.gpumem("report", file, **({} if FULL else {"GPUMEMSHIM_IMPORT_MEMORY": "64MiB"}))
                self.assertIn(done.returncode, (0, 3, 4), done.stderr[-300:])
                if done.returncode == 3:
                    refused += 1
                    self.assertIn(f"{bomb.__name__}.pickle: ", done.stderr)
                file.unlink()
        self.assertGreater(refused, len(import_bombs.BOMBS) // 2)

    def test_memory_can_be_allowed(self):
        file = self.written("alive", import_bombs.all_alive(8_000_000))
        little = self.gpumem("report", file, GPUMEMSHIM_IMPORT_MEMORY="64MiB")
        self.assertEqual(little.returncode, 3)
        self.assertIn("would take over 64 MiB of memory", little.stderr)
        self.assertIn("GPUMEMSHIM_IMPORT_MEMORY=256MiB", little.stderr)
        self.assertEqual(self.gpumem("report", file, GPUMEMSHIM_IMPORT_MEMORY="1GiB").returncode, 0)

    def test_cut_anywhere(self):
        for name in ("snapshot0", "snapshot4"):
            whole = corpus.good()[name]
            positions = [position for _, _, position in pickletools.genops(whole)]
            for position in positions[:: max(1, len(positions) // 60)] + positions[-1:]:
                if not whole[:position]:
                    continue
                with self.subTest(f"{name} at {position}"):
                    done = self.gpumem("import", "--force", self.written(name, whole[:position]))
                    self.assertEqual(done.returncode, 3, done.stdout)
                    self.assertTrue(done.stderr.strip().endswith("."), done.stderr)


def main():
    global GPUMEM, FULL
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--full", action="store_true", help="bombs of 400 MB")
    arguments, rest = parser.parse_known_args()
    FULL = arguments.full
    GPUMEM = str(arguments.build.resolve() / "bin" / "gpumemshim")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

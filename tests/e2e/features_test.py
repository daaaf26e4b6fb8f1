# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""docs/features.md: every command in it exists with its flags, and answers where it reads a trace; every setting and call is there; every row has a state.

    python tests/e2e/features_test.py --build build/release [--full]
"""

import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import python_api_test
import truth

SETUP = None
PAGE = truth.ROOT / "docs" / "features.md"
LIST = truth.ROOT.parent / "shared" / "FEATURES.md"  # where the rows' numbers come from, if it is beside the checkout
ROW = re.compile(r"^\| (\d+[a-z]?) \| (.+?) \| (none|`.+`) \| (works|in part: .+|none: .+) \|$")
# These start, follow or ask programs, or wait; what they do is in their own tests. Here they are parsed.
OF_PROGRAMS = {"attach", "ctl", "live", "mcp", "plan", "run", "serve", "simulate", "sweep", "replay"}
ANSWERED = (0, 1, 4, 7)  # docs/exit-codes.md


def rows():
    found = [ROW.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d", line)]
    assert all(found), "a row of docs/features.md has another form"
    return [match.groups() for match in found]


def commands():
    """The words of each command, once."""
    lines = [shown.strip("`").replace("\\|", "|") for _, _, shown, _ in rows() if shown.startswith("`gpumemshim ")]
    return [shlex.split(line)[1:] for line in dict.fromkeys(lines)]


class Features(unittest.TestCase):
    def test_rows(self):
        numbers = [number for number, *_ in rows()]
        self.assertEqual((len(numbers), len(set(numbers))), (139, 139))
        if LIST.exists():
            self.assertEqual(numbers, re.findall(r"^\| (\d+[a-z]?) \| ", LIST.read_text(encoding="utf-8"), re.MULTILINE))

    def test_settings_and_calls(self):
        settings = (truth.ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
        sys.path.insert(0, str(truth.ROOT / "python"))
        import gpumemshim

        for number, _, shown, _ in rows():
            word = shown.strip("`")
            if word.startswith("GPUMEMSHIM_"):
                self.assertIn(f"| `{word}` |", settings, number)
            elif word.startswith(("gpumemshim.compat.", "gpumemshim.integrations")):
                self.assertIsNotNone(importlib.util.find_spec(word), number)
            elif word.startswith("gpumemshim."):
                self.assertTrue(hasattr(gpumemshim, word.partition(".")[2]), f"{number}: {word}")

    def test_commands_have_these_flags(self):
        helps = {}
        for words in commands():
            if words[0] not in helps:
                done = subprocess.run([SETUP.gpumem, words[0], "--help"], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, words)
                helps[words[0]] = done.stdout
            own = words[: words.index("--")] if "--" in words else words
            for flag in (word for word in own[1:] if re.match(r"--?[a-z]", word)):
                self.assertRegex(helps[words[0]], rf"(?m)^ +.*{flag}\b", " ".join(words))

    def test_commands_answer(self):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-features-") as name:
            folder = pathlib.Path(name)
            python_api_test.SETUP = SETUP
            environment = python_api_test.environment(SIMCUDA_DEVICES="2")
            truth.run(SETUP.recording(folder / "run.gmtrace", *SETUP.command(truth.PROGRAMS / "all_features.py")), SETUP, environment)
            (folder / "traces").mkdir()
            for copy in ("a.gmtrace", "b.gmtrace", "traces/a.gmtrace", "traces/b.gmtrace"):
                shutil.copy(folder / "run.gmtrace", folder / copy)
            os.utime(folder / "run.gmtrace")  # the newest

            def answer(words):
                return words, subprocess.run([SETUP.gpumem, *words], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, errors="replace", check=False)

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                asked = [words for words in commands() if words[0] not in OF_PROGRAMS]
                for words, done in pool.map(answer, asked):
                    if "DuckDB" not in done.stderr:
                        self.assertIn(done.returncode, ANSWERED, f"{' '.join(words)}: {done.stderr}")


if __name__ == "__main__":
    truth.run_tests(globals(), ("test_commands_answer",))

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The package in other people's tools: pytest with --gpumemshim and the two markers, the magics of IPython.

    python tests/e2e/python_tools_test.py --build build/release
"""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import python_api_test
import truth

SETUP = None
TESTS = truth.PROGRAMS / "limited_tests.py"


def environment(**more):
    python_api_test.SETUP = SETUP
    return python_api_test.environment(**more)


class PytestTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-pytest-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def pytest(self, *arguments, **more):
        command = [*SETUP.command("-m"), "pytest", "-p", "gpumemshim.pytest_plugin", "-p", "no:cacheprovider", "--rootdir", str(TESTS.parent), "-rfExX", str(TESTS), *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment(**more), capture_output=True, text=True, check=False)

    @staticmethod
    def failed(done):
        return sorted(re.findall(r"^FAILED \S+?::(\S+)", done.stdout, re.MULTILINE))

    def test_limits_are_kept_or_fail_the_test(self):
        done = self.pytest()
        self.assertEqual(self.failed(done), ["OfUnittest::test_too_much", "test_fails_by_itself", "test_leaks", "test_no_size", "test_too_much"], done.stdout + done.stderr)
        self.assertIn("GPU memory: 36 MiB at once, more than the limit of 32 MiB", done.stdout)
        self.assertRegex(done.stdout, r"100 MiB  .*limited_tests.py:\d+ mib")
        self.assertIn("GPU memory: 4 MiB left behind, more than the limit of 1 MiB", done.stdout)
        self.assertIn("'a lot' is not a size. Write it as '2 GB', '512 MiB' or '4096'", done.stdout)
        self.assertIn("ValueError: its own", done.stdout)
        self.assertIn("1 xfailed", done.stdout)
        self.assertNotIn("== GPU memory ==", done.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_used_most_is_listed(self):
        done = self.pytest("--gpumemshim", "--gpumemshim-output", "run.gmtrace", "--gpumemshim-top", "3")
        self.assertEqual(len(self.failed(done)), 5, done.stdout + done.stderr)
        rows = re.findall(r"^ +(\d+ MiB) +(\d+ MiB|-)  \S+::(\S+)$", done.stdout, re.MULTILINE)
        self.assertEqual(rows, [("48 MiB", "-", "test_each[48]"), ("36 MiB", "-", "test_too_much"), ("32 MiB", "-", "test_fits_beside_its_fixture")])
        self.assertIn("... 7 more (--gpumemshim-top 0)", done.stdout)
        self.assertIn(f"next: gpumemshim html {self.folder / 'run.gmtrace'}", done.stdout)

    def test_without_the_recorder(self):
        limited = self.pytest(PATH="/usr/bin:/bin")
        self.assertEqual(self.failed(limited), ["test_fails_by_itself", "test_no_size"], limited.stdout + limited.stderr)
        self.assertEqual(limited.stdout.count("was not checked: libgpumemshim.so was not found"), 1)
        asked = self.pytest("--gpumemshim", PATH="/usr/bin:/bin")
        self.assertEqual(asked.returncode, 4, asked.stdout)
        self.assertIn("--gpumemshim: gpumemshim is not on PATH", asked.stderr)


class NotebookTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-notebook-")
        cls.addClassCleanup(folder.cleanup)
        program = truth.PROGRAMS / "notebook_cells.py"
        done = subprocess.run(SETUP.command(program), cwd=folder.name, env=environment(IPYTHONDIR=folder.name), capture_output=True, text=True, check=False)
        if done.returncode:
            raise truth.Failure(done.stderr[-3000:])
        cls.cells = json.loads(done.stdout.splitlines()[-1])

    def test_a_cell_shows_its_memory(self):
        cell = self.cells["train"]
        (kinds, text, page), *_ = cell["outputs"]
        self.assertEqual(kinds, ["text/html", "text/plain"])
        self.assertTrue(text.startswith("In[2]: peak 80 MiB (0 B when it began), left 16 MiB behind; "), text)
        self.assertRegex(text, r"64 MiB +1  In\[2\]:2 <module>")
        self.assertIn('src="data:image/png;base64,iVBORw0KGgo', page)
        self.assertIn("In[2]:2 &lt;module&gt;", page)
        self.assertNotIn("http", re.sub(r'src="[^"]*"', "", page))

    def test_the_cells_value_and_errors_stay(self):
        self.assertEqual((self.cells["train"]["value"], self.cells["hidden"]["value"]), ("42", "None"))
        self.assertEqual((self.cells["error"]["error"], self.cells["syntax"]["error"]), ("NameError", "SyntaxError"))
        self.assertTrue(self.cells["error"]["outputs"][0][1].startswith("In[5]: "))

    def test_the_recording_is_kept(self):
        self.assertEqual(self.cells["sizes"]["printed"].split(), ["0", str(80 << 20), str(16 << 20)])
        self.assertEqual((self.cells["line"]["printed"].split(), self.cells["line"]["outputs"]), ([str(1 << 20)], []))

    def test_lines_of_older_cells_are_known(self):
        text = self.cells["older"]["outputs"][0][1]
        for line in (r"16 MiB +1  In\[2\]:1", r"2 MiB +1  In\[9\]:1", r"1 MiB +1  In\[4\]:1"):
            self.assertRegex(text, line)

    def test_a_picture_is_shown_and_not_its_bytes(self):
        (kinds, text, _), *_ = self.cells["picture"]["outputs"]
        self.assertEqual(kinds, ["image/png", "text/plain"])
        self.assertRegex(text, r"^<PNG of [\d,]+ bytes>$")

    def test_lines_are_the_cells(self):
        self.assertRegex(self.cells["lines"]["value"], r"^'In\[2\]:2 ")

    def test_usage(self):
        self.assertTrue(self.cells["usage"]["printed"].startswith("Usage: %%gpumemshim"))


if __name__ == "__main__":
    truth.run_tests(globals())

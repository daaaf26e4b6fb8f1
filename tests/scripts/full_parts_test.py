# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`scripts/test --full` in parts: what was green at a commit is not run again there, what failed or never ran is, and the last line is the sum of all.

In a small repository of its own, with the scripts as they are and builds, tests and checks that only say that they were run.

    python tests/scripts/full_parts_test.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAYS = '#!/bin/sh\necho "$(basename "$0") $*" >> ran.txt\n'
# ctest: two tests a suite, and one fails where a file says so.
CTEST = """#!/bin/sh
echo "ctest $*" >> ran.txt
while [ $# -gt 0 ]; do if [ "$1" = --output-junit ]; then shift; file=$1; fi; shift; done
name=$(basename "$file" .xml)
broken=
[ -e "broken-$name" ] && broken='<failure/>'
echo "<testsuite><testcase name='one'>$broken</testcase><testcase name='two'/></testsuite>" > "$file"
[ -z "$broken" ]
"""
SUITES = 11  # parts of two tests each
RUN_BESIDE = 1 + 2 + 2  # checks of fuzz, checks, tidy_1 and tidy_2
OTHERS = RUN_BESIDE + 1  # and odr, which is a build


class FullParts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-parts-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "tree"
        for name in ("scripts/test", "scripts/lib/common.sh", "scripts/lib/full_parts.sh", "scripts/lib/count_tests.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        for name in ("scripts/bootstrap", "scripts/build", "scripts/check", "scripts/check_checks", "scripts/check_tidy", "tests/fuzz/run.sh"):
            self.write(name, SAYS)
        self.write("bin/ctest", CTEST)
        self.write(".gitignore", "/build\n/ran.txt\n/broken-*\n")
        self.git("init", "-q")
        self.commit("first")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *words):
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
        subprocess.run(["git", "-C", str(self.root), *identity, *words], check=True, capture_output=True)

    def commit(self, text):
        self.write("file.txt", text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text)

    def test(self, *arguments, code=0):
        """(the lines that it printed, what ran)"""
        (self.root / "ran.txt").unlink(missing_ok=True)
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "GPUMEMSHIM_FUZZ_SECONDS": "1"}
        done = subprocess.run([self.root / "scripts/test", *arguments], cwd="/", env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        ran = self.root / "ran.txt"
        lines = ran.read_text().splitlines() if ran.exists() else []
        return (done.stdout + done.stderr).splitlines(), [line for line in lines if not line.startswith(("bootstrap", "build"))]

    def test_what_was_green_is_not_run_again(self):
        lines, ran = self.test("--full")
        self.assertEqual(lines[-1], f"{2 * SUITES + OTHERS} passed, 0 failed, 0 skipped")
        self.assertEqual(len(ran), SUITES + RUN_BESIDE)
        lines, ran = self.test("--full")
        self.assertEqual((lines[-1], ran), (f"{2 * SUITES + OTHERS} passed, 0 failed, 0 skipped", []))
        self.commit("second")
        self.assertEqual(len(self.test("--full")[1]), SUITES + RUN_BESIDE, "another commit, so all of it")

    def test_what_failed_is_run_again_and_nothing_else(self):
        (self.root / "broken-plans").touch()
        lines, _ = self.test("--full", code=1)
        self.assertIn("failed: plans: one", lines)
        self.assertEqual(lines[-1], f"{2 * SUITES + OTHERS - 1} passed, 1 failed, 0 skipped")
        (self.root / "broken-plans").unlink()
        lines, ran = self.test("--full")
        self.assertEqual(len(ran), 1, ran)
        self.assertEqual(lines[-1], f"{2 * SUITES + OTHERS} passed, 0 failed, 0 skipped")

    def test_one_part_and_then_the_rest(self):
        lines, ran = self.test("--full", "--part", "2")
        self.assertEqual((lines[-1], len(ran)), ("2 passed, 0 failed, 0 skipped", 1))
        self.assertIn("recorder", ran[0])
        self.assertEqual(self.test("--full", "--part", "2")[1], [])
        lines, ran = self.test("--full")
        self.assertEqual((lines[-1], len(ran)), (f"{2 * SUITES + OTHERS} passed, 0 failed, 0 skipped", SUITES + RUN_BESIDE - 1))

    def test_nothing_is_green_in_a_tree_with_changes(self):
        self.write("file.txt", "changed")
        self.test("--full", "--part", "1")
        self.assertEqual(len(self.test("--full", "--part", "1")[1]), 1)

    def test_a_build_that_breaks_is_a_failure(self):
        self.write("scripts/build", "#!/bin/sh\n[ \"$1\" != asan ]\n")
        self.commit("broken")
        lines, _ = self.test("--full", code=1)
        self.assertIn("failed stage: build of asan", lines)
        self.assertEqual(lines[-1], f"{2 * (SUITES - 1) + OTHERS} passed, 1 failed, 0 skipped")

    def test_the_parts_are_listed_with_their_outcome(self):
        self.test("--full", "--part", "3")
        lines, _ = self.test("--parts")
        self.assertRegex("\n".join(lines), r"\| 3 \| `analyzer` \| .* \| 0 min \| 2 passed, 0 failed, 0 skipped \|")
        self.assertIn("not run at this commit", lines[2])

    def test_what_makes_no_sense_is_refused(self):
        for arguments in (("--part", "1"), ("--full", "--part", "99"), ("--full", "--part", "two"), ("--full", "--part"), ("--full", "-R", "ring")):
            with self.subTest(arguments=arguments):
                lines, ran = self.test(*arguments, code=1)
                self.assertEqual(ran, [])
                self.assertRegex(lines[-1], r"scripts/test: .*(--full|--parts|preset)")

    def test_a_run_of_every_day_leaves_long_tests_out(self):
        _, ran = self.test("-R", "ring")
        self.assertEqual(len(ran), 1)
        self.assertRegex(ran[0], r"-LE \^full\$ -R ring$")


class LongTests(unittest.TestCase):
    def test_each_pattern_is_also_taken_out_of_the_others(self):
        """So that no long test runs twice, and none is left out."""
        text = (ROOT / "scripts/lib/full_parts.sh").read_text()
        patterns = re.findall(r"^readonly (OF_\w+)=", text, re.M)
        others = re.search(r"^part_others\(\).*", text, re.M)[0]
        self.assertEqual(re.findall(r"\$(OF_\w+)", others), patterns)


if __name__ == "__main__":
    unittest.main()

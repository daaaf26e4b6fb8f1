# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim bisect` names the commit, the version of a package, the file or the settings that changed a program's peak, and leaves the user's repository
and environment as they were.

    python tests/e2e/bisect_test.py --build build/release
"""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import zipfile

import truth

SETUP = None
MIB = 1 << 20
RARER = ("test_a_threshold", "test_a_kill_in_the_middle", "test_the_version_from_a_folder_of_wheels", "test_two_command_lines", "test_a_list_of_files")

# Both of a step's tensors are made before the last step's go: four at the peak.
TRAIN = """
import torch
from size import WIDTH
held = []
for step in range(3):
    held = [torch.empty(WIDTH << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
print("peak", torch.cuda.max_memory_allocated())
"""


def tree_of(folder):
    """Every file below it with what it holds, git's own among them."""
    return {str(path.relative_to(folder)): (path.readlink() if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest(), path.lstat().st_mode)
            for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file()}


class BisectTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-bisect-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.work = self.folder / "work"
        self.work.mkdir()

    def environment(self):
        return truth.environment_of_plans(SETUP, XDG_CACHE_HOME=str(self.folder / "cache"))

    def command(self, *options, program=("train.py",)):
        return [str(word) for word in [SETUP.gpumem, "bisect", *options, *(["--", SETUP.python, *program] if program else [])]]

    def bisect(self, *options, expected=0, **more):
        done = subprocess.run(self.command("--json", *options, **more), cwd=self.work, env=self.environment(), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def git(self, *words):
        environment = {**os.environ, "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
        return subprocess.run(["git", "-C", self.work, *words], env=environment, capture_output=True, text=True, check=True).stdout.strip()


class Commits(BisectTest):
    def setUp(self):
        super().setUp()
        self.git("init", "-q", "-b", "main")
        (self.work / "train.py").write_text(TRAIN + "open('notes.txt', 'a').write('ran')\n")
        (self.work / ".gitignore").write_text("data/\n")
        widths = ["WIDTH = 8", "WIDTH = 8  # wide", "WIDTH = 8", "WIDTH = eight", "WIDTH = 24", "WIDTH = 24  # wider", "WIDTH = 16", "WIDTH = 16  # or so"]
        for number, text in enumerate(widths):
            (self.work / "size.py").write_text(text + "\n")
            self.git("add", "-A")
            self.git("commit", "-q", "--allow-empty", "-m", f"Change {number}")
        (self.work / "notes.txt").write_text("mine\n")  # untracked; the program writes into it
        (self.work / "data").mkdir()
        (self.work / "data" / "tokens.bin").write_bytes(b"0" * 4096)

    def test_the_commit_and_why(self):
        before = tree_of(self.work)
        answer = self.bisect("--good", "HEAD~7", "--bad", "HEAD")
        self.assertEqual(tree_of(self.work), before, "repository and files are as they were")
        step = answer["steps"][0]
        self.assertEqual((step["subject"], step["author"]), ("Change 4", "Ada"))
        self.assertEqual((step["before_bytes"], step["after_bytes"]), (4 * 8 * MIB, 4 * 24 * MIB))
        self.assertEqual(len(step["not_running"]), 1, "the one with a name that is not defined may be it")
        self.assertIn("train.py:6", step["cause"]["headline"])
        self.assertEqual([other["subject"] for other in answer["steps"][1:]], ["Change 6"], "the step down is reported, too")
        self.assertIn("NameError", next(look["reason"] for look in answer["looks"] if look["bytes"] is None))
        self.assertTrue(any("data" in note and "notes.txt" in note for note in answer["notes"]), answer["notes"])
        again = self.bisect("--good", "HEAD~7", "--bad", "HEAD")
        self.assertEqual((again["runs"], again["steps"]), (1, answer["steps"]), "all of it is kept, but what cannot be run: it may be now")
        self.assertEqual(list((self.folder / "cache" / "gpumemshim" / "bisect").glob("*/running")), [], "the clone is gone")

    def test_a_threshold(self):
        answer = self.bisect("--good", "HEAD~7", "--above", "+50%", "--no-link", "data")
        self.assertEqual([step["subject"] for step in answer["steps"]], ["Change 4"])
        self.assertEqual(answer["above_bytes"], 48 * MIB)
        self.assertLessEqual(len(answer["looks"]), 6)
        self.assertFalse(self.bisect("--good", "HEAD~7", "--above", "1GiB", expected=7)["found"])

    def test_a_kill_in_the_middle(self):
        before = tree_of(self.work)
        process = subprocess.Popen(self.command("--good", "HEAD~7"), cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = self.folder / "cache"
        while process.poll() is None and len(list(rows.glob("gpumemshim/bisect/*/rows/*.json"))) < 2:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(tree_of(self.work), before)
        answer = self.bisect("--good", "HEAD~7")
        self.assertEqual(answer["steps"][0]["subject"], "Change 4")
        self.assertLess(answer["runs"], len(answer["looks"]), "it goes on where it stopped")

    def test_what_cannot_be_asked(self):
        self.assertIn('"nothere" is no commit', self.bisect("--good", "nothere", expected=2))
        self.assertIn("one commit", self.bisect("--good", "HEAD", expected=2))
        (self.work / "elsewhere").mkdir()
        self.assertIn("no command", self.bisect("--good", "HEAD~1", "--bad", "HEAD", program=(), expected=2))


class Versions(BisectTest):
    def wheel(self, version, text, requires=""):
        name = f"mylib-{version}"
        with zipfile.ZipFile(self.folder / "wheels" / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("mylib.py", text)
            wheel.writestr(f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: mylib\nVersion: {version}\n{requires}")
            wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{name}.dist-info/RECORD", "")

    def test_the_version_from_a_folder_of_wheels(self):
        (self.folder / "wheels").mkdir()
        for version, width in (("1.0", 8), ("1.1", 8), ("1.2.post1", 8), ("1.10rc1", 99), ("1.10", 20), ("1.11", 20)):
            self.wheel(version, f"WIDTH = {width}\n")
        self.wheel("1.3", "WIDTH = 8\n", "Requires-Dist: never-heard-of\n")
        (self.work / "train.py").write_text(TRAIN.replace("size", "mylib"))
        answer = self.bisect("--package", "mylib", "--good", "1.0.0", "--bad", "1.11", "--wheelhouse", self.folder / "wheels")
        step = answer["steps"][0]
        self.assertEqual((step["before"], step["after"], step["not_running"]), ("1.2.post1", "1.10", ["1.3"]))
        self.assertEqual(step["change_bytes"], 4 * 12 * MIB)
        self.assertNotIn("1.10rc1", [look["name"] for look in answer["looks"]])
        self.assertIn("cannot be installed", next(look["reason"] for look in answer["looks"] if look["name"] == "1.3"))


class Settings(BisectTest):
    PROGRAM = """
import json, sys, torch
c = json.load(open(sys.argv[1]))
for step in range(3):
    torch.empty(c["batch"] << 20, dtype=torch.uint8, device="cuda")
    if c["eval"]["every"] and step % c["eval"]["every"] == 0:
        torch.empty(c["eval"]["batch"] << 20, dtype=torch.uint8, device="cuda")
"""

    def test_two_keys_that_act_together(self):
        good = {"name": "a", "lr": 0.1, "batch": 8, "eval": {"every": 0, "batch": 4, "log": 1}, "seed": 1, "decay": 0.0}
        bad = {"name": "b", "lr": 0.2, "batch": 8, "eval": {"every": 2, "batch": 32, "log": 2}, "seed": 2, "decay": 0.1}
        for name, values in (("good.json", good), ("bad.json", bad)):
            (self.work / name).write_text(json.dumps(values))
        (self.work / "train.py").write_text(self.PROGRAM)
        answer = self.bisect("--good", "good.json", "--bad", "bad.json", program=("train.py", "good.json"))
        self.assertEqual([(key["name"], key["good"], key["bad"], key["alone_bytes"]) for key in answer["settings"]],
                         [("eval.every", "0", "2", 8 * MIB), ("eval.batch", "4", "32", 8 * MIB)])
        self.assertEqual((answer["good_bytes"], answer["bad_bytes"], answer["with_settings_bytes"], answer["differing"]), (8 * MIB, 32 * MIB, 32 * MIB, 7))
        self.assertIn("train.py:7", answer["cause"]["headline"])
        self.assertEqual(sorted(path.name for path in self.work.iterdir()), ["bad.json", "good.json", "train.py"])

    def test_two_command_lines(self):
        (self.work / "train.py").write_text("import sys, torch\nx = [torch.empty(int(sys.argv[2]) << 20, dtype=torch.uint8, device='cuda') for _ in range(3)]\n")
        line = f"{SETUP.python} train.py --batch {{}} --seed {{}}"
        answer = self.bisect("--good", line.format(4, 1), "--bad", line.format(6, 2), program=())
        self.assertEqual([key["name"] for key in answer["settings"]], ["--batch"])
        self.assertFalse(self.bisect("--good", line.format(4, 1), "--bad", line.format(4, 2), program=(), expected=7)["found"])

    def test_a_list_of_files(self):
        (self.work / "train.py").write_text(self.PROGRAM)
        for number, batch in enumerate((4, 4, 12, 12)):
            (self.work / f"{number}.json").write_text(json.dumps({"batch": batch, "eval": {"every": 0}}))
        answer = self.bisect("--files", "0.json", "1.json", "2.json", "3.json", program=("train.py", "{}"))
        self.assertEqual(answer["steps"][0]["after"], "2.json")


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    truth.run_tests(globals(), RARER)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`cmake --install`, then the tree moved into a folder with a blank in its name: all parts still find each other there.

    python tests/packaging/install_test.py --build build/release
"""

import argparse
import ctypes.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIPPED = 77
BUILD = PYTHON = None

sys.path.insert(0, str(ROOT / "scripts/lib"))
from licences import PARTS  # noqa: E402


def text_of(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL, **more).stdout


def packages_of_archives():
    """Debian's packages whose archives gpumemshim is linked with, by the line that links it; none where this is not a Debian."""
    if shutil.which("dpkg-query") is None:
        return set()
    commands = text_of("ninja", "-C", BUILD, "-t", "commands", "bin/gpumemshim").splitlines()
    archives = {word for word in commands[-1].split() if word.startswith("/usr/") and word.endswith(".a")}
    if not archives:
        raise AssertionError(f"no archives in: {commands[-1]}")
    found = text_of("dpkg-query", "-S", *(os.path.realpath(archive) for archive in archives))
    return {line.partition(":")[0] for line in found.splitlines()}


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.said = text_of("cmake", "--install", BUILD, "--prefix", cls.folder / "first", "--strip")
        cls.tree = cls.folder / "moved to another place"
        shutil.move(cls.folder / "first", cls.tree)
        cls.gpumem = cls.tree / "bin/gpumemshim"

    def test_the_moved_tree_works(self):
        steps = ["version", "record", "report", "plan"]
        if (self.tree / "lib/gpumemshim/libduckdb.so").exists():
            steps.insert(3, "sql")
        else:
            print("not asked: sql, since scripts/bootstrap could not get DuckDB")
        done = subprocess.run([sys.executable, str(HERE / "exercise.py"), "--gpumem", str(self.gpumem), "--python", PYTHON, "--folder", str(self.folder / "work"),
                               "--steps", ",".join(steps)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_libunwind_beside_the_recorder_is_taken(self):
        """As packages have one, whatever the machine has."""
        theirs = ctypes.util.find_library("unwind")
        if theirs is None:
            print("not asked: which libunwind is taken, since this machine has none to copy")
            return
        program = "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0); print([line.split()[-1] for line in open('/proc/self/maps') if 'libunwind' in line][0])"
        maps = [line.split(maxsplit=5)[-1].strip() for line in self.maps_with(theirs) if theirs in line]
        beside = self.tree / "lib/gpumemshim/libunwind.so.8"
        shutil.copy(maps[0], beside)
        self.addCleanup(beside.unlink)
        # The path has blanks: its last word tells enough.
        taken = text_of(sys.executable, self.tree / "share/gpumemshim/simcuda/run", self.gpumem, "run", "-q", "-o", self.folder / "u.gmtrace", "--", sys.executable, "-c", program)
        self.assertEqual(taken.strip(), str(beside).split()[-1])
        self.assertIn(f"unwinder    {beside}", text_of(self.gpumem, "doctor"))

    @staticmethod
    def maps_with(library):
        return text_of(sys.executable, "-c", f"import ctypes; ctypes.CDLL({library!r}); print(open('/proc/self/maps').read())").splitlines()

    def test_nothing_in_it_names_the_place_where_it_was_built(self):
        for path in self.tree.rglob("*"):
            if path.is_file() and path.read_bytes().startswith(b"\x7fELF"):
                self.assertNotIn(str(ROOT).encode() + b"/", path.read_bytes(), path)

    def test_the_package_for_python_is_there(self):
        environment = {**os.environ, "PYTHONPATH": str(self.tree / "share/gpumemshim/python"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.assertEqual(text_of(sys.executable, "-c", "import gpumemshim; print(gpumemshim.recording())", env=environment, cwd=self.folder), "False\n")

    def test_examples_and_the_skill_are_there(self):
        self.assertIn("OUT OF MEMORY", text_of(self.gpumem, "report", "--example", "oom", cwd=self.folder))
        self.assertTrue((self.tree / "share/gpumemshim/skills/gpumemshim/SKILL.md").is_file())

    def commands(self):
        listed = text_of(self.gpumem, "--help") + text_of(self.gpumem, "report", "--help")
        return re.findall(r"^(?:[A-Z][a-z]+)? +([a-z]+)  +\S", listed, re.M)

    def test_bash_completes_commands_and_flags(self):
        script = self.tree / "share/bash-completion/completions/gpumemshim"
        ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpumemshim; echo "${COMPREPLY[*]}"'

        def completed(*words):
            return text_of("bash", "--norc", "-c", ask, "bash", script, *words).split()

        self.assertEqual(completed("gpumemshim", "repo"), ["report"])
        self.assertEqual(completed("gpumemshim", "report", "--full"), ["--full-stacks", "--full"])
        self.assertEqual(completed("gpumemshim", "report", "frag"), ["fragmentation"])
        self.assertEqual(completed("gpumemshim", "leaks", "--example", "l"), ["leak"])
        for command in self.commands():
            self.assertIn(command, completed("gpumemshim", command))
            self.assertIn("--help", completed("gpumemshim", command, "--h"), command)

    def test_other_shells_take_theirs(self):
        for shell, name in (("zsh", "share/zsh/site-functions/_gpumemshim"), ("fish", "share/fish/vendor_completions.d/gpumemshim.fish")):
            text = (self.tree / name).read_text()
            for command in self.commands():
                self.assertIn(command, text)
            if shutil.which(shell):
                text_of(shell, "-n", self.tree / name)
            else:
                print(f"not asked: {shell}, which is not installed, whether it can read {name}")

    def test_each_document_of_a_command_is_a_manual_page(self):
        if "no manual pages" in self.said:
            print("not asked: manual pages, since go-md2man is not installed")
            return
        for document in (ROOT / "docs/commands").glob("*.md"):
            name = "gpumemshim" if document.stem == "README" else f"gpumemshim-{document.stem}"
            page = (self.tree / f"share/man/man1/{name}.1").read_text()
            self.assertIn(f".TH {name.upper()} 1 ", page)
            self.assertIn(".SH NAME", page)

    def test_every_licence_is_there(self):
        licences = self.tree / "share/doc/gpumemshim/licences"
        for part in ("abseil", "protobuf", "elfutils", "cairo", "libstdc++", "zlib"):
            self.assertIn(part, (licences / "README.md").read_text())
        self.assertLessEqual(packages_of_archives(), set(PARTS), "linked in, and without a licence in scripts/lib/licences.py")
        self.assertIn("Apache License", (self.tree / "share/doc/gpumemshim/LICENSE").read_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    arguments, rest = parser.parse_known_args()
    BUILD, PYTHON = arguments.build.resolve(), arguments.python
    if not os.access(PYTHON, os.X_OK):
        print(f"skipped: no PyTorch to run programs with ({PYTHON} is missing). Run scripts/bootstrap, or pass --python")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest])

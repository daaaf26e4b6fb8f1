# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The source distribution, unpacked at another place and built there: what it makes is what the repository makes, byte by byte; and pip builds and installs it.

    python tests/packaging/twice_test.py
"""

import hashlib
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import packages

MADE, PYTHON = {}, None
KINDS = ("wheel", "sdist", "sbom")


def run(*command, folder):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def differences(one, other):
    """Names of what differs in two wheels, for whoever has to find out why."""
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        names = sorted({*first.namelist(), *second.namelist()})
        return [name for name in names if name not in first.namelist() or name not in second.namelist() or first.read(name) != second.read(name)]


class TwiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="gpumemshim-twice-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        with tarfile.open(MADE["sdist"]) as archive:
            archive.extractall(cls.folder, filter="data")
        cls.tree = next(path for path in cls.folder.iterdir() if path.is_dir())
        for name in (".deps", ".venv"):  # what scripts/bootstrap would fetch again
            (cls.tree / name).symlink_to(packages.ROOT / name)
        said = run("scripts/package", *KINDS, folder=cls.tree)
        cls.again = {kind: cls.tree / line.rpartition(",")[0] for kind, line in zip(KINDS, said.splitlines()[-len(KINDS):])}

    def test_they_are_the_same(self):
        self.assertEqual(differences(MADE["wheel"], self.again["wheel"]), [])
        for kind in KINDS:
            sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (MADE[kind], self.again[kind])]
            self.assertEqual(*sums, kind)
            print(f"{MADE[kind].name}: {sums[0]}")

    def test_pip_builds_and_installs_it(self):
        run(PYTHON, "-m", "venv", self.folder / "env", folder=self.folder)
        run(PYTHON, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", self.folder / "wheels", self.tree, folder=self.folder)
        wheel = next((self.folder / "wheels").glob("*.whl"))
        self.assertTrue(wheel.name.endswith("-py3-none-linux_x86_64.whl"), wheel.name)
        run(self.folder / "env/bin/pip", "install", "--quiet", "--no-index", wheel, folder=self.folder)
        done = run(sys.executable, packages.EXERCISE, "--gpumem", self.folder / "env/bin/gpumemshim", "--python", PYTHON, "--folder", self.folder / "work", "--steps", "version,record,report",
                   folder=self.folder)
        self.assertIn("with lines and categories", done)


if __name__ == "__main__":
    arguments, rest = packages.arguments_of()
    PYTHON = arguments.python
    MADE.update(zip(KINDS, packages.made(*KINDS)))
    packages.run_tests(rest)

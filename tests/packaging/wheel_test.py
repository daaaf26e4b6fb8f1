# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The wheel in a fresh environment of each CPython of this machine, and with PyTorch; the tarball.

    python tests/packaging/wheel_test.py
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import packages

sys.path.insert(0, str(packages.ROOT / "tests" / "lib"))
import interpreters  # noqa: E402

WHEEL = TARBALL = PYTHON = None


def run(*command, folder=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=folder, env=packages.environment_for(), stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if "__pycache__" not in path.parts}


def exercise(gpumem, python, folder):
    return run(sys.executable, packages.EXERCISE, "--gpumem", gpumem, "--python", python, "--folder", folder)


class WheelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-wheel-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, interpreter, name):
        place = self.folder / name
        run(interpreter, "-m", "venv", place)
        return place

    def check_fresh(self, interpreter):
        place = self.environment(interpreter.path, interpreter.version)
        before = below(place)
        run(place / "bin/pip", "install", "--no-index", "--quiet", packages.ROOT / WHEEL)
        for words in ((place / "bin/gpumemshim",), (place / "bin/python", "-m", "gpumemshim")):
            self.assertRegex(run(*words, "--version"), r"^gpumemshim \d+\.\d+\.\d+\n$")
        tree = next(place.glob("lib/python3*/site-packages/gpumemshim"))
        found = "from gpumemshim import _attach, _program; print(_program.find()); print(next(_attach.candidates()))"
        self.assertEqual(run(place / "bin/python", "-c", found, folder="/").split(), [str(tree / "bin/gpumemshim"), str(tree / "lib/gpumemshim/libgpumemshim.so")])
        self.assertIn("not recording", run(place / "bin/python", "-c", "import gpumemshim; print('recording' if gpumemshim.recording() else 'not recording')"))
        self.assertTrue((tree / "share/man/man1/gpumemshim-report.1").is_file())
        asked = subprocess.run([place / "bin/gpumemshim", "mcp", "."], capture_output=True, text=True, cwd=self.folder, env=packages.environment_for(), stdin=subprocess.DEVNULL)
        self.assertIn(f"{place}/bin/python (Python {interpreter.version.rpartition('.')[0]}) has no package mcp", asked.stderr)
        run(place / "bin/pip", "uninstall", "--quiet", "--yes", "gpumemshim")
        self.assertEqual(below(place), before)

    def test_every_python_of_this_machine(self):
        found = [interpreter for interpreter in interpreters.find() if not interpreter.debug]
        for interpreter in found:
            with self.subTest(interpreter.version):
                self.check_fresh(interpreter)
        print(f"tried: {', '.join(each.version for each in found)}; not on this machine: {', '.join(interpreters.absent(found)) or 'none'}")

    def test_with_pytorch(self):
        place = self.environment(PYTHON, "torch")
        run(place / "bin/pip", "install", "--no-index", "--quiet", packages.ROOT / WHEEL)
        others = next((pathlib.Path(PYTHON).parent.parent).glob("lib/python3*/site-packages"))
        (next(place.glob("lib/python3*/site-packages")) / "others.pth").write_text(f"{others}\n")
        print(exercise(place / "bin/gpumemshim", place / "bin/python", self.folder / "work"))

    def test_a_folder_of_packages(self):
        """pip install --target: nothing but PATH and PYTHONPATH says where it is."""
        run(PYTHON, "-m", "pip", "install", "--no-index", "--quiet", "--target", self.folder / "target", packages.ROOT / WHEEL)
        print(exercise(self.folder / "target/bin/gpumemshim", PYTHON, self.folder / "work"))

    def test_the_tarball(self):
        run("tar", "-xzf", packages.ROOT / TARBALL, "-C", self.folder)
        gpumem = next(self.folder.glob("gpumemshim-*/bin/gpumemshim"))
        print(exercise(gpumem, PYTHON, self.folder / "work"))


if __name__ == "__main__":
    arguments, rest = packages.arguments_of()
    PYTHON = arguments.python
    if not pathlib.Path(PYTHON).exists():
        packages.skip(f"no PyTorch to run programs with ({PYTHON} is missing). Run scripts/bootstrap, or pass --python")
    WHEEL, TARBALL = packages.made("wheel", "tarball")
    packages.run_tests(rest)

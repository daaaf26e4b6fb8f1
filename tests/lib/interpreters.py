# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The CPython interpreters of this machine: on PATH, in pyenv's folder, and those that GPUMEMSHIM_TEST_PYTHONS names.

    for python in find():       # [Interpreter(path="/usr/bin/python3.11", version="3.11.2"), ...]
    absent(find())              # ["3.9", "3.14"]: minor versions that the recorder reads and that were not found
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

MINORS = range(9, 16)
ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3], sys.implementation.name, hasattr(sys, 'gettotalrefcount'), sys.base_exec_prefix)"


@dataclasses.dataclass(frozen=True)
class Interpreter:
    path: str
    version: str  # "3.11.2"
    debug: bool
    prefix: str

    @property
    def minor(self):
        return int(self.version.split(".")[1])


def candidates():
    yield from filter(None, os.environ.get("GPUMEMSHIM_TEST_PYTHONS", "").split(":"))
    yield sys.executable
    name = re.compile(r"python3\.\d+d?")
    folders = [pathlib.Path(folder) for folder in os.environ.get("PATH", "").split(":") if folder]
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    if os.access(pyenv / "versions", os.R_OK | os.X_OK):  # the variable may be another user's
        folders += sorted((pyenv / "versions").glob("*/bin"))
    for folder in folders:
        if folder.name != "shims" and os.path.isdir(folder) and os.access(folder, os.R_OK):  # a shim may be there for a version that is not chosen
            yield from (str(path) for path in sorted(folder.glob("python3.*")) if name.fullmatch(path.name))


def ask(path):
    try:
        done = subprocess.run([path, "-S", "-c", ASK], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split(maxsplit=3)
    if done.returncode or len(words) != 4 or words[1] != "cpython":
        return None
    return Interpreter(path, words[0], words[2] == "True", words[3].strip())


def find():
    """One for each build, oldest first."""
    found, seen = {}, set()
    for path in candidates():
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        python = ask(path)
        if python and python.minor in MINORS:
            found.setdefault((python.minor, python.version, python.debug, python.prefix), python)
    return [found[key] for key in sorted(found)]


def with_packages(python):
    """The environment for a test under it: packages of .venv (greenlet) where they are made for this version."""
    packages = pathlib.Path(__file__).resolve().parents[2] / ".venv" / "lib" / f"python3.{python.minor}" / "site-packages"
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))}


def absent(pythons):
    there = {python.minor for python in pythons if not python.debug}
    return [f"3.{minor}" for minor in MINORS if minor not in there]

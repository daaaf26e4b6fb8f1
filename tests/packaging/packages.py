# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the tests of packages share: making them once, and the end where one cannot be made here.

    wheel, tarball = packages.made("wheel", "tarball")
"""

import argparse
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXERCISE = HERE / "exercise.py"
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def made(*kinds):
    """The paths of the packages, newly made. The test ends as skipped where what they need cannot be fetched."""
    done = subprocess.run([str(ROOT / "scripts/package"), *kinds], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode and any(words in done.stderr for words in ("-m pip install", "apt-get", "DuckDB is not here")):
        skip(f"a package needs what could not be fetched: {done.stderr.strip().splitlines()[-1]}")
    if done.returncode:
        raise RuntimeError(f"scripts/package {' '.join(kinds)}: {done.stdout}{done.stderr}")
    return [ROOT / line.rpartition(",")[0] for line in done.stdout.splitlines()[-len(kinds):]]


def environment_for(prefix="/usr"):
    return {"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def arguments_of(parser=None):
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"), help="one with PyTorch")
    arguments, rest = parser.parse_known_args()
    if arguments.build.resolve() != ROOT / "build/release":
        skip("packages are made of build/release")
    return arguments, [sys.argv[0], *rest]


def run_tests(rest):
    unittest.main(module="__main__", argv=rest)

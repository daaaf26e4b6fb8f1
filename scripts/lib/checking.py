# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the scripts/check_* scripts share: which files the repository has, and how a finding is printed.

A check is a function find(root) that yields Finding values. run_check() prints them with the way to mend them, and returns the exit code.
`--root DIR` checks another tree: the self-tests seed a violation in a copy and want to see it found.
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE_SUFFIXES = (".h", ".cc", ".c", ".S")


@dataclasses.dataclass
class Finding:
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


def files(root, *suffixes):
    """The files of the repository, as paths relative to root: those that git tracks or would track; every file where there is no git."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode == 0 and (root / ".git").exists():
        names = sorted(set(name for name in listed.stdout.split("\0") if name))
    else:
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return [name for name in names if (root / name).is_file() and (not suffixes or name.endswith(suffixes))]


def read(root, name):
    return (root / name).read_text(encoding="utf-8", errors="replace")


def parse(description, extend=None):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    if extend:
        extend(parser)
    return parser.parse_args()


def run_check(name, findings, mend):
    """Prints the findings, then how to mend them; or one line when there are none."""
    findings = list(findings)
    for finding in findings:
        print(finding)
    if findings:
        print(f"{name}: {len(findings)} to mend. {mend}")
        return 1
    print(f"{name}: ok")
    return 0


def fail(name, text):
    print(f"{name}: {text}")
    sys.exit(1)

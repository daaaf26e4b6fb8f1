# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""installed.py REQUIREMENTS: exits 0 when this interpreter has every `name==version` of the file, else 1 with a line for each that it lacks.

Reads the folder of installed distributions directly: importing packages, or pip itself, would take longer than everything else that
scripts/bootstrap does when there is nothing to do.
"""

import importlib.metadata
import sys


def wanted(path):
    for line in open(path, encoding="utf-8"):
        requirement = line.split("#")[0].split("--hash")[0].strip()
        if requirement:
            name, version = requirement.split("==")
            yield name.strip(), version.strip()


def main():
    missing = 0
    for name, version in wanted(sys.argv[1]):
        try:
            found = importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            found = None
        if found != version:
            print(f"{name}: want {version}, have {found}", file=sys.stderr)
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

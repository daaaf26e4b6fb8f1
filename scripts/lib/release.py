# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a release is: its version, and whether the package is published.

    release.version()          "0.1.0"
    release.PUBLISHED          False until the owner has uploaded the package to PyPI
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Set to True on the day of publication, and nothing else by hand: README, docs, `gpumemshim mcp` and `gpumemshim doctor` say `pip install FILE.whl` until then,
# `pip install gpumemshim` afterwards. Before it the name belongs to nobody, and whoever registers it would be installed.
PUBLISHED = False


def version(root=ROOT):
    """The one place of the version is the package for Python; CMake reads it there too."""
    return re.search(r'^__version__ = "([^"]+)"$', (root / "python/gpumemshim/__init__.py").read_text(encoding="utf-8"), re.M)[1]

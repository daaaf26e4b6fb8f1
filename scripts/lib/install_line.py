# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The line that installs gpumemshim. Until it is published that is a wheel's file: the bare name would be somebody else's package, or none.

    line(ROOT)        "pip install gpumemshim-0.1.0-py3-none-manylinux_2_28_x86_64.whl", or "pip install gpumemshim"
    bare(text)        the places of a text that install by the bare name
"""

import re

import release

# PUBLISHED = True in scripts/lib/release.py turns all that people read to the name.
PUBLISHED = re.compile(r"^PUBLISHED\s*=\s*True\b", re.M)
# pip, pipx, uv and uvx, with flags and other packages before the name; not a file, a folder or an index of such.
BARE = re.compile(r"""\b(?:pip3?|pipx|uv|uvx)\b(?:[ \t]+(?:install|run|pip|tool|add|download|-[-\w]+(?:[= ](?!gpumemshim\b)[^\s`'"]+)?|(?!gpumemshim\b)[\w.\[\]<>=~-]+))*[ \t]+['"]?gpumemshim(?![\w/*-]|\.\w)""")


def published(root):
    path = root / "scripts" / "lib" / "release.py"
    return path.exists() and PUBLISHED.search(path.read_text(encoding="utf-8")) is not None


def line(root):
    return "pip install gpumemshim" if published(root) else f"pip install gpumemshim-{release.version(root)}-py3-none-manylinux_2_28_x86_64.whl"


def bare(text):
    """But where nothing would be looked for by it: `uninstall`, an index of one's own (--no-index), `uvx --from FILE`."""
    return [found for found in BARE.finditer(text) if re.search(r"\b(?:uvx|install|run|add|download)\b", found[0]) and not re.search(r"--(?:no-index\b|from[ =](?!gpumemshim(?:[\s'\"`]|$)))", found[0])]

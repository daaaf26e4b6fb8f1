# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a release is: whether the package is published, and where else its version stands.

    release.PUBLISHED          False until the owner has uploaded the package to PyPI
"""

# Set to True on the day of publication, and nothing else by hand: README, docs, `gpumemshim mcp` and `gpumemshim doctor` say `pip install FILE.whl` until then,
# `pip install gpumemshim` afterwards. Before it the name belongs to nobody, and whoever registers it would be installed.
PUBLISHED = False

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Lines of a notebook's cells as people call them, "In[3]:5", in the process that knows its cells."""

import pathlib
import sys


def names_of(shell):
    """What the shell calls its cells' code, and what people call it: ("ipykernel_1234/567.py", "In[3]")."""
    names = getattr(shell.compile, "_filename_map", {})
    return [("/".join(pathlib.PurePath(name).parts[-2:]), f"In[{number}]") for name, number in names.items()]


def as_cells(line):
    """The line with its cell's name. Unchanged where it is of no cell of this process; None stays None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    for name, shown in names_of(shell) if shell is not None and line else ():
        line = line.replace(name, shown, 1)
    return line

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What was installed together with this package: program, recorder and what they need lie in one tree. The wheel has it in the package's own folder; the deb and
`cmake --install` have the package in it.

    program()      Path of bin/gpumemshim, or None: the package came alone
    recorder()     Path of libgpumemshim.so, or None

Both raise GpumemError where the package is imported from a zip file (a zipapp) and its programs cannot be unpacked (_unpacked.py).
"""

import pathlib

RECORDER = "lib/gpumemshim/libgpumemshim.so"


def tree(here=None):
    """The folder; None where there is none. share/gpumemshim/python/gpumemshim lies four levels deep in it."""
    here = here or pathlib.Path(__file__).resolve().parent
    above = [here, *here.parents]
    found = next((above[level] for level in (0, 4) if level < len(above) and (above[level] / RECORDER).is_file()), None)
    if found is None and hasattr(__loader__, "archive"):
        from gpumemshim import _unpacked

        found = _unpacked.tree(__loader__.archive, __name__.partition(".")[0])
    return found


def program():
    found = tree()
    return found and found / "bin" / "gpumemshim"


def recorder():
    found = tree()
    return found and found / RECORDER

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What was installed together with this package: the wheel, the deb and `cmake --install` put program and recorder below the same folder.

    program()      Path of bin/gpumemshim, or None: the package came alone
    recorder()     Path of libgpumemshim.so, or None
"""

import pathlib

RECORDER = "lib/gpumemshim/libgpumemshim.so"


def prefix(here=None):
    """The folder; None where there is none. lib/python3.x/site-packages/gpumemshim and share/gpumemshim/python/gpumemshim lie equally deep in it; with
    `pip install --target` it is the folder of the package."""
    here = here or pathlib.Path(__file__).resolve().parent
    above = list(here.parents)
    return next((above[level] for level in (3, 0) if level < len(above) and (above[level] / RECORDER).is_file()), None)


def program():
    found = prefix()
    return found and found / "bin" / "gpumemshim"


def recorder():
    found = prefix()
    return found and found / RECORDER

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Where the simulated libraries lie: $SIMCUDA_LIB, a build tree of this checkout, or an installed copy beside us."""
import glob
import os

MARK = "libcuda.so.1"
LEVELS = 4  # from simcuda/tools up to the prefix of an installed copy


def find(start, environ=os.environ):
    """The folder that holds libcuda.so.1, as an absolute path; "" if there is none.

    `start` is a folder of the checkout, at any depth. A named folder that does not hold it is not replaced by another.
    """
    named = environ.get("SIMCUDA_LIB")
    if named:
        return os.path.abspath(named) if os.path.exists(os.path.join(named, MARK)) else ""
    folder = os.path.abspath(start)
    for _ in range(LEVELS):
        candidates = [os.path.join(folder, "build", preset, "lib", "simcuda") for preset in ("release", "dev")]
        candidates += sorted(glob.glob(os.path.join(glob.escape(folder), "build", "*", "lib", "simcuda")))
        candidates += [os.path.join(folder, "lib", "simcuda"), os.path.join(folder, "lib", "gpumemshim", "simcuda")]
        for candidate in candidates:
            if os.path.exists(os.path.join(candidate, MARK)):
                return candidate
        folder = os.path.dirname(folder)
    return ""

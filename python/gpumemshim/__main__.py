# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`python -m gpumemshim ...` is `gpumemshim ...`, the one that was installed with this package."""

import sys

from gpumemshim import _program

if __name__ == "__main__":
    sys.exit(_program.main())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The one error of this package."""


class GpumemError(RuntimeError):
    """`gpumemshim` could not answer, or there is no recorder. `code` is gpumemshim's exit code (docs/exit-codes.md), or None where no program was run; the text is
    its own."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code

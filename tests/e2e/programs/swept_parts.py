# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A module of the swept program's own: it looks at the command line when it is imported, as people's modules do."""

import sys

WORDS = list(sys.argv)

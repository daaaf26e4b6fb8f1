# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the tools' logs have in common."""


def close_handlers(logger):
    """Takes all handlers from a logger, and closes them."""
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()

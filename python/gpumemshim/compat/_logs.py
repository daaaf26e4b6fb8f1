# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the tools' logs have in common."""

import logging


def close_handlers(logger):
    """Takes all handlers from a logger, and closes them."""
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def is_wanted(record):
    """INFO and above, as the tools have it; from another level on where `logging.basicConfig(level=...)` names one, before or after the tool was made.

    Python's root logger is at WARNING where nobody set it, so WARNING there asks for nothing.
    """
    chosen = logging.getLogger().level
    return record.levelno >= (logging.INFO if chosen == logging.WARNING else chosen)


def logger_of_tool(name):
    """A logger by this name, without handlers, whose level follows Python's root logger."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.DEBUG)
    close_handlers(logger)
    if is_wanted not in logger.filters:
        logger.addFilter(is_wanted)
    return logger

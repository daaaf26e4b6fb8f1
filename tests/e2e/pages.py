# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What tests of HTML pages have in common: the program, traces made for them, one browser for all tests of a file.

    class Setup(pages.PageSetup):
        def page(self, trace): ...

    return pages.run(Setup(arguments.build), rest)
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import chromium


class PageSetup:
    def __init__(self, build):
        self.gpumem = str(build / "bin" / "gpumemshim")
        self.traces = str(build / "tests" / "e2e" / "flame_traces")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpumemshim-page-"))
        self.browser = None

    def trace(self, *what, name=""):
        """A trace of programs/flame_traces.cc; `name` of its file, where that is not what it is of."""
        path = self.folder / f"{name or what[0]}.gmtrace"
        subprocess.run([self.traces, what[0], str(path), *what[1:]], check=True)
        return path


def run(setup, arguments):
    """Runs the tests of the main module with `setup.browser` open. The exit code; 77 where there is no browser."""
    if chromium.find() is None:
        print("skipped: no Chromium here (scripts/bootstrap --all installs it)")
        return 77
    with chromium.Browser() as browser:
        setup.browser = browser
        outcome = unittest.main(argv=[sys.argv[0], *arguments], exit=False).result
    return 0 if outcome.wasSuccessful() else 1

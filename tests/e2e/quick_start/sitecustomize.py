# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""On PYTHONPATH, for programs of tests: nothing is collected while PyTorch is imported, and its own objects, a million, are never looked at again.

That is a quarter of what a start of PyTorch costs, and each test starts it many times. From then on the program's objects are collected as ever.
"""

import gc
import sys
from importlib.machinery import PathFinder

LARGE = ("torch", "torch._dynamo")  # the first optimizer imports the second


class Uncollected:
    """A finder of these modules alone, which are loaded as they would be."""

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name in LARGE else None
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            collecting = gc.isenabled()
            gc.disable()
            try:
                load(module)
            finally:
                if name == "torch":  # at the other one, there may be objects of the program
                    gc.freeze()
                if collecting:
                    gc.enable()

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Uncollected())

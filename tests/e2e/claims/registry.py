# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs with the truth of each, and their mended twins.

    @program("growing", thread="github.com/...", line="self.activations.append", keeper="activations")
    def a_program(mended): ...

    python threads.py                 lists them as JSON
    python threads.py NAME            runs one
    python threads.py NAME mended     runs it as the thread mends it

No program decides by values of tensors: simulated CUDA computes none. mended.py prints what PyTorch says of a run's peaks.
"""

import dataclasses
import json
import random
import sys

PROGRAMS = {}
RESULT = None  # of the program: what it still has at its end
KINDS = ("growing", "reserved", "fragmented", "lives", "oom", "sound")


@dataclasses.dataclass
class Truth:
    """What is true of a program."""

    kind: str
    thread: str = ""  # where it was reported
    line: tuple = ()  # texts, one of which the guilty line has
    also: tuple = ()  # texts of lines that may be called growing besides, or "(allocator)"
    keeper: str = ""  # names of the variable or attribute that keeps the memory
    cause: str = ""  # of reserved memory: a `change` of what_if, or expandable_segments; of what lives too long: the `kind` of a remedy; of an out of memory: words, a pattern
    never: str = ""  # a pattern of words that an answer about an out of memory must not have
    capacity_mb: int = 0  # of the simulated GPU; 0 = as it is
    twin: bool = False  # whether it has a mended twin, whose peak says what the remedy saves


def program(kind, **truth):
    """Registers a program; one that takes `mended` has a twin."""
    assert kind in KINDS

    def register(function):
        texts = {name: (truth[name],) if isinstance(truth[name], str) else truth[name] for name in ("line", "also") if name in truth}
        PROGRAMS[function.__name__] = function
        function.truth = Truth(kind, **{**truth, **texts}, twin=function.__code__.co_argcount > 0)
        return function

    return register


def main():
    if len(sys.argv) < 2:
        print(json.dumps({name: dataclasses.asdict(function.truth) for name, function in PROGRAMS.items()}))
        return
    import torch

    global RESULT
    random.seed(0)
    torch.manual_seed(0)
    function = PROGRAMS[sys.argv[1]]
    RESULT = function(*([sys.argv[2:] == ["mended"]] if function.truth.twin else []))

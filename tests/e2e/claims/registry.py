# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs with the truth of each, and their mended twins.

    @program("growing", thread="github.com/...", line="self.activations.append", keeper="activations")
    def a_program(mended): ...

    python threads.py                 lists them as JSON
    python threads.py NAME            runs one
    python threads.py NAME mended     runs it as the thread mends it

A run ends with a line of JSON: what PyTorch says of its peaks. No program decides by values of tensors: simulated CUDA computes none.
"""

import dataclasses
import json
import random
import sys

PROGRAMS = {}
RESULT = None  # of the program: what it still has at its end
KINDS = ("growing", "reserved", "lives", "oom", "sound")


@dataclasses.dataclass
class Truth:
    """What is true of a program."""

    kind: str
    thread: str = ""  # where it was reported
    line: tuple = ()  # texts, one of which the guilty line has
    keeper: str = ""  # name of the variable or attribute that keeps the memory
    cause: str = ""  # of reserved memory: a change of `fragmentation`; of what lives too long: a check of `explain`; of an out of memory: words
    never: str = ""  # words that an answer about an out of memory must not have
    setting: str = ""  # NAME=VALUE, an environment variable that mends it
    capacity_mb: int = 0  # of the simulated GPU; 0 = as it is
    twin: bool = False  # whether it has a mended twin, whose peak says what the remedy saves


def program(kind, **truth):
    """Registers a program; one that takes `mended` has a twin."""
    assert kind in KINDS

    def register(function):
        line = truth.pop("line", ())
        PROGRAMS[function.__name__] = function
        function.truth = Truth(kind, line=(line,) if isinstance(line, str) else line, twin=function.__code__.co_argcount > 0, **truth)
        return function

    return register


def main():
    if len(sys.argv) < 2:
        print(json.dumps({name: dataclasses.asdict(function.truth) for name, function in PROGRAMS.items()}))
        return
    import torch

    random.seed(0)
    torch.manual_seed(0)
    global RESULT
    function = PROGRAMS[sys.argv[1]]
    try:
        RESULT = function(*([len(sys.argv) > 2] if function.truth.twin else []))
    finally:
        print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "end": torch.cuda.memory_allocated()}))

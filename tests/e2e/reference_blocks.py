# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The code blocks, command lines and shown outputs of other tools' documents, which lie in shared/reference beside the checkout and are no part of it.

    for block in blocks_of(folder): print(block.name, block.kind)      # S1.1 python, ..., S2.3a command, S2.11 output

A block of shell commands is one Block a command line, named by a letter where there are several; `pip install` is none.
"""

import dataclasses
import re

import truth

FOLDER = truth.ROOT.parent / "shared" / "reference"
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
# What a user of the tools changes: where a name is imported from, and which program a command line starts.
IMPORTS = (
    ("from memoryCheck import", "from gpumemshim.compat.memoryCheck import"),
    ("from utils.loraTrain.", "from gpumemshim.compat."),
    ("from tools.memory import", "from gpumemshim.compat.memory import"),
)
COMMANDS = (
    ("python benchmark/debug_memory_usage.py", "-m gpumemshim.compat.debug_memory_usage"),
    ("python gpu_memory_profiler.py", "-m gpumemshim.compat.gpu_memory_profiler"),
    ("python detailed_memory_profiler.py", "-m gpumemshim.compat.detailed_memory_profiler"),
    ("python -m tools.memory", "-m gpumemshim.compat.memory"),
    ("python tests/testProfiler.py", "examples/compat/testProfiler.py"),
    ("python utils/memoryDebug/example_usage.py", "examples/compat/example_usage.py"),
    ("probing $ENDPOINT", "-m gpumemshim.compat.probing $ENDPOINT"),
)
NUMBER = re.compile(r" *\d[\d,]*(\.\d+)?")


@dataclasses.dataclass
class Block:
    name: str  # S2.3a
    kind: str  # python, command, sql, json, output
    text: str  # as printed, without its indentation


def commands_of(text):
    """The command lines of a block of shell: comments left out, continued lines and quoted ones whole."""
    found, line = [], ""
    for each in text.splitlines():
        if not line and (not each.strip() or each.startswith("#")):
            continue
        line += each + "\n"
        if line.count('"') % 2 == 0 and not each.endswith("\\"):
            found.append(line.rstrip("\n"))
            line = ""
    return found


def blocks_of(folder=FOLDER):
    found = []
    for file in sorted(folder.glob("S*.md")):
        document = file.name.split("-")[0]
        for number, (indent, language, text) in enumerate(FENCE.findall(file.read_text(encoding="utf-8")), 1):
            text = "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))
            if language != "bash":
                found.append(Block(f"{document}.{number}", language or "output", text))
                continue
            lines = [each for each in commands_of(text) if not each.startswith("pip ")]
            found += [Block(f"{document}.{number}{chr(97 + at) if len(lines) > 1 else ''}", "command", each) for at, each in enumerate(lines)]
    return found


def with_our_imports(code):
    for theirs, ours in IMPORTS:
        code = code.replace(theirs, ours)
    return code


def arguments_of(command):
    """What follows `python`, with our module for theirs: as a text for a shell."""
    for theirs, ours in COMMANDS:
        if command.startswith(theirs):
            return ours + command[len(theirs) :]
    raise ValueError(f"no program of ours for: {command}")


def shape_of(line, names=()):
    """A pattern of a shown line: its words and columns, with any number for a number (as many digits behind the point) and anything for a name."""
    pattern, at = "", 0
    for number in NUMBER.finditer(line):
        pattern += re.escape(line[at : number.start()]) + (r" *-?[\d,]+" if number[1] is None else rf" *-?[\d,]+\.\d{{{len(number[1]) - 1}}}")
        at = number.end()
    pattern += re.escape(line[at:])
    for name in names:
        pattern = pattern.replace(shape_of(name), ".+")
    return pattern


def is_like(shown, given):
    """Whether `given` has all keys of the shown JSON, with values of their kinds; numbers as keys (devices) stand for any."""
    if isinstance(shown, dict):
        return isinstance(given, dict) and all(is_like(value, given[key]) if key in given else key.isdigit() and any(is_like(value, each) for each in given.values()) for key, value in shown.items())
    if isinstance(shown, list):
        return isinstance(given, list) and bool(given) and all(is_like(shown[0], each) for each in given)
    if isinstance(shown, (int, float)):
        return isinstance(given, (int, float)) and not isinstance(given, bool)
    return type(shown) is type(given)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How many turns the loops around a planned program's step will make, where the program's text and variables say so. injected_script.py loads this: a program that ends soon is
run to its end, so that what comes late (a longer sequence, an average of weights, an evaluation) is seen.

    most_turns(sys._getframe())   # 200 inside of `for step in range(200):`; None: a loop around it has no bound that is known

Read are: range, len, enumerate, zip and what shows a bar of progress, of names, attributes and whole numbers; lists, loaders; `while step < limit`. Nothing of the program's own
is called but the length of a loader. Loops of PyTorch's own files do not count.

Failure: what is not understood has no bound.
"""

import ast
import builtins
import operator
import os
import sys

CALCULATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}
LENGTHS = (list, tuple, dict, set, range, str, bytes)
THROUGH = {"enumerate", "tqdm", "trange", "list", "reversed", "sorted", "iter", "track"}  # as long as the first argument
MOST_SOURCE = 4 << 20

parsed = {}  # tree by file


class NoBound(Exception):
    pass


def tree_of(path):
    if path not in parsed:
        try:
            if os.path.getsize(path) > MOST_SOURCE:
                raise ValueError
            with open(path, "rb") as file:
                parsed[path] = ast.parse(file.read())
        except (OSError, ValueError, SyntaxError, RecursionError):
            parsed[path] = None
    return parsed[path]


def loops_in(node, line):
    """The loops whose body the line is in, past functions that are defined inside."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(each, (ast.For, ast.AsyncFor, ast.While)) and each.body[0].lineno <= line <= each.body[-1].end_lineno:
            yield each
        yield from loops_in(each, line)


def loops_around(code, line):
    """Those of this function's text."""
    tree = tree_of(code.co_filename)
    if tree is None:
        if not code.co_filename.startswith("<frozen"):
            raise NoBound
        return
    functions = [each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == code.co_name and each.lineno <= line <= each.end_lineno]
    if functions or code.co_name == "<module>":
        yield from loops_in(max(functions, key=lambda each: each.lineno, default=tree), line)


class Reader:
    def __init__(self, frame):
        self.names = (frame.f_locals, frame.f_globals)

    def value(self, node):
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            for names in self.names:
                if node.id in names:
                    return names[node.id]
        if isinstance(node, ast.Attribute):
            return self.attribute(self.value(node.value), node.attr)
        if isinstance(node, ast.BinOp) and type(node.op) in CALCULATIONS:
            sides = [self.number(each) for each in (node.left, node.right)]
            if isinstance(node.op, ast.FloorDiv) and sides[1] == 0:
                raise NoBound
            return CALCULATIONS[type(node.op)](*sides)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("len", "int", "min", "max"):
            if node.func.id == "len":
                return self.length(node.args[0])
            return getattr(builtins, node.func.id)(*map(self.number, node.args))
        raise NoBound

    def attribute(self, value, name):
        own = getattr(value, "__dict__", {})
        if name not in own:  # it may be a function of the program's
            raise NoBound
        return own[name]

    def number(self, node):
        value = self.value(node)
        if type(value) is not int:
            raise NoBound
        return value

    def length(self, node):
        """Of what a loop goes through."""
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name in ("range", "trange"):
                return len(range(*map(self.number, node.args)))
            if name == "zip":
                return min(map(self.length, node.args))
            if name in THROUGH and node.args:
                return self.length(node.args[0])
        if isinstance(node, (ast.Tuple, ast.List)):
            return len(node.elts)
        return self.length_of(self.value(node))

    def length_of(self, value):
        if type(value) in LENGTHS:
            return len(value)
        loaders = sys.modules.get("torch.utils.data")
        if loaders is not None and isinstance(value, loaders.DataLoader) and not isinstance(value.dataset, loaders.IterableDataset):
            return len(value)
        total = getattr(value, "__dict__", {}).get("total")  # a bar of progress
        if type(total) is int:
            return total
        raise NoBound

    def turns(self, loop):
        if not isinstance(loop, ast.While):
            return self.length(loop.iter)
        test = loop.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Lt, ast.LtE)) and isinstance(test.left, ast.Name):
            return self.number(test.comparators[0]) + isinstance(test.ops[0], ast.LtE)
        raise NoBound


def is_ours(frame):
    """Whether it is PyTorch's own, or of what watches the program."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in ("torch", "<gpumemshim>") or package.startswith("gpumem_")


def most_turns(frame):
    turns = 1
    try:
        while frame is not None:
            if not is_ours(frame):
                reader = Reader(frame)
                for loop in loops_around(frame.f_code, frame.f_lineno):
                    turns *= max(reader.turns(loop), 1)
            is_whole = frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__"
            frame = None if is_whole else frame.f_back  # outside is what started the program
    except Exception:  # an object of the program's may raise what it likes
        return None
    return turns

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Numbers that nobody computed, as a planned program gets them in a run with other values: each comparison of one is a decision, and goes the way of that run. values.py loads
this.

    comparisons = Comparisons(decisions)
    number = comparisons.watched(64, 0, None)   # the program gets 64, where the simulation has 0
    number == 7                                 # "flip": the opposite of what 0 gives; "true", "false": that
    comparisons.begin(torch)                    # Tensor.item() and .tolist() give such numbers from now on

So `token == 7` goes both ways, whichever number 7 is, and so does what was calculated from the token. The notes name each place of a comparison, `compared`:
{"train.py:12#34": count}; "at" takes such a place, and the comparison there alone goes the other way.

Only runs with other values have this: in the first one, whose peaks are the answer's, Tensor.item is PyTorch's own.

What cannot be seen is noted as `compared_open`, with its place: a number that a table is asked for (dictionaries, sets), one that became a plain number by int(), float() or a
copy in a line or function that compares it, a loop that waits for a comparison.

Failure: none. A number is an int or a float to whoever gets it; a copy of it for another process is a plain one.
"""

import dis
import math
import operator
import os
import sys

MOST_FORCED = 1000  # comparisons at one place; then they are what they are, since a loop waits for them
COMPARES = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow}
OF_WHOLE_NUMBERS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift}
OF_ONE = {"neg": operator.neg, "abs": abs, "round": round, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil}
ORDER = {"COMPARE_OP", "CONTAINS_OP"}
NO_VALUES = {"dtype", "shape", "ndim", "device"}  # of a copied tensor: what is compared of these is known
ANSWERED = {}  # by code and instruction
STORES = {"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"}


def place_of(frame):
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}#{frame.f_lasti}"


def natural_of(value):
    return getattr(value, "_natural", value)


def most_of(*values):
    """How many there are to choose from, of a position; None: any number."""
    return next((value._most for value in values if getattr(value, "_most", None) is not None), None)


def compares_result(frame):
    """Whether what the call in this frame gives is compared: in its line, or by the name that it gets. Nobody else is asked: most numbers are printed."""
    key = (frame.f_code, frame.f_lasti)
    if key not in ANSWERED:
        ANSWERED[key] = find_comparison(frame.f_code, frame.f_lasti, frame.f_lineno)
    return ANSWERED[key]


def find_comparison(code, offset, line):
    lines, at = [], code.co_firstlineno
    instructions = list(dis.get_instructions(code))
    for each in instructions:
        at = each.starts_line if type(each.starts_line) is int else at
        lines.append(at)
    comparing = {lines[i] for i, each in enumerate(instructions) if each.opname in ORDER}
    after = [each for i, each in enumerate(instructions) if each.offset >= offset and lines[i] == line]
    if line in comparing:
        return True
    name = next((each.argval for each in after if each.opname in STORES), None)
    following = {i: each.argval for i, each in enumerate(instructions[1:])}
    used = [i for i, each in enumerate(instructions) if each.opname.startswith("LOAD") and each.argval == name and following.get(i) not in NO_VALUES]
    return name is not None and any(lines[i] in comparing for i in used)


class Comparisons:
    def __init__(self, decisions):
        self.decisions, self.notes, self.forced, self.own_code = decisions, decisions.run.notes, {}, ()
        self.classes = {int: self.number_class(int), float: self.number_class(float)}

    def watched(self, value, natural, most):
        """A number that the program gets as `value`, and would as `natural` from the simulation."""
        kind = float if isinstance(value, float) else int
        number = self.classes[kind](value)
        number._natural, number._most = natural, most
        return number

    def is_compared(self, frame):
        return compares_result(frame)

    def open_at(self, frame):
        self.notes.setdefault("compared_open", place_of(frame).partition("#")[0])

    def outcome(self, natural, frame):
        """Which way a comparison goes that would go `natural`."""
        place = place_of(frame)
        counts = self.notes.setdefault("compared", {})
        counts[place] = counts.get(place, 0) + 1
        decisions = self.decisions
        if "#" in decisions.at:
            goes = not natural if decisions.at == place else natural
        elif not decisions.gives_another(frame):
            goes = natural
        else:
            goes = not natural if decisions.other == "flip" else decisions.other == "true"
        if goes == natural:
            return natural
        self.forced[place] = self.forced.get(place, 0) + 1
        if self.forced[place] > MOST_FORCED:
            self.open_at(frame)
            return natural
        return goes

    def compare(self, own, other, name, frame):
        if not isinstance(other, (int, float)):
            return NotImplemented
        compared = COMPARES[name]
        natural = bool(compared(own._natural, natural_of(other)))
        if other is own or self.is_certain(own, other, compared):
            return natural
        return self.outcome(natural, frame)

    def is_certain(self, own, other, compared):
        """Whether every position of so many compares the same way; of a float: whether it is compared with what no finite one equals."""
        if isinstance(natural_of(other), float) and not math.isfinite(natural_of(other)):
            return True
        if own._most is None or isinstance(other, self.classes[int]):
            return False
        return (other < 0 or other >= own._most) or (compared in (operator.lt, operator.ge) and other <= 0)

    def number_class(self, base):
        watch = self

        def compared(name):
            return lambda own, other: watch.compare(own, other, name, sys._getframe(1))

        def calculated(name, is_reflected):
            plain, function = getattr(base, f"__{'r' if is_reflected else ''}{name}__"), calculations[name]

            def calculate(own, other):
                value = plain(own, other)
                if value is NotImplemented or not isinstance(value, (int, float)):
                    return value
                sides = (natural_of(other), own._natural) if is_reflected else (own._natural, natural_of(other))
                try:
                    return watch.watched(value, function(*sides), None)
                except ArithmeticError:
                    return watch.watched(value, value, None)

            return calculate

        def changed(name, function):
            plain = getattr(base, f"__{name}__")

            def change(own, *digits):
                value = plain(own, *digits)
                return watch.watched(value, function(own._natural, *digits), None)

            return change

        def as_plain(kind):
            def convert(own):
                if compares_result(sys._getframe(1)):
                    watch.open_at(sys._getframe(1))
                return kind(base.__float__(own)) if kind is float else base.__int__(own)

            return convert

        def truth(own):
            return watch.outcome(bool(own._natural), sys._getframe(1)) if own._most is None or own._most > 1 else bool(own._natural)

        def looked_up(own):
            if base is int:
                watch.open_at(sys._getframe(1))
            return base.__hash__(own)

        names = {f"__{name}__": compared(name) for name in COMPARES}
        calculations = {**ARITHMETIC, **(OF_WHOLE_NUMBERS if base is int else {})}
        names.update({f"__{name}__": calculated(name, False) for name in calculations})
        names.update({f"__r{name}__": calculated(name, True) for name in calculations})
        names.update({f"__{name}__": changed(name, function) for name, function in OF_ONE.items()})
        names.update(__bool__=truth, __hash__=looked_up, __int__=as_plain(int), __float__=as_plain(float), __reduce__=lambda own: (base, (base.__int__(own) if base is int else base.__float__(own),)))
        return type(base.__name__, (base,), names)

    # What the program reads.

    def begin(self, torch):
        tensor, decisions = torch.Tensor, self.decisions
        item, tolist = tensor.item, tensor.tolist

        def watched_item(own):
            decisions.was_read = None
            value = item(own)
            read, decisions.was_read = decisions.was_read, None
            return value if read is None else self.number(value, iter(read[0]), read[1])

        def watched_tolist(own):
            decisions.was_read = None
            values = tolist(own)
            read, decisions.was_read = decisions.was_read, None
            return values if read is None else self.number(values, iter(read[0]), read[1])

        self.own_code = (watched_item.__code__, watched_tolist.__code__)
        tensor.item, tensor.tolist = watched_item, watched_tolist

    def number(self, value, naturals, most):
        """The same with watched numbers: of one, or of a list."""
        if isinstance(value, list):
            return [self.number(each, naturals, most) for each in value]
        natural = next(naturals, value)
        return self.watched(value, natural, most) if type(value) in self.classes else value

    def called_from(self, frame):
        """(the program's frame, whether it gets watched numbers)"""
        own, is_watched = os.path.dirname(__file__), False
        while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == own:
            is_watched = is_watched or frame.f_code in self.own_code
            frame = frame.f_back
        return frame, is_watched

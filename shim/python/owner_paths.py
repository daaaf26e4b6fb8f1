# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What leads from one object to another one, in words: `history[*].grad_fn`. A part of owners.py, before it.

Objects are read as plain.py says. Elements of what has many are all called [*], so that what lies in one container is one owner.
"""

FEW = 8  # elements of a container that are told apart
OPTIMIZED = 1  # of a code object's flags: its variables are not in a dictionary


def kind_name(thing):
    return text(class_name(type(thing)))


def is_plain_container(thing):
    """What has elements and no name of its own."""
    return is_a(thing, dict) or is_a(thing, list) or is_a(thing, tuple) or kind_name(thing) in ("set", "frozenset", "deque", "cell", "dict_values", "mappingproxy")


def size_of(thing):
    for kind in (list, dict, tuple):
        if is_a(thing, kind):
            return kind.__len__(thing)
    kind = type(thing)
    is_deque = dict.get(module_fields("_collections"), "deque") is kind  # a class that is made at run time, from Python 3.12 on
    if is_deque or (kind_name(thing) in ("set", "frozenset") and not class_flags(kind) & HEAP_TYPE):
        return kind.__len__(thing)
    return 0


def element(key, count):
    if count > FEW or not (type(key) is str or type(key) is int):
        return "[*]"
    return "[" + (str(key) if type(key) is int else "'" + key[:40] + "'") + "]"


def place_in(sequence, child):
    at = 0
    for value in elements(sequence):
        if value is child:
            return at
        at += 1
    return None


def key_in(mapping, child):
    for key, value in pairs(mapping):
        if value is child:
            return key
    return None


def variables_of(frame):
    """(name, value) of a frame's variables. No dictionary of them stays behind that was not there."""
    code, variables = frame.f_code, frame.f_locals
    if is_a(variables, dict):
        found = pairs(variables)
        if code.co_flags & OPTIMIZED and references is not None and references(variables) <= 3:  # the frame's, ours, the argument's
            dict.clear(variables)
        return found if code.co_flags & OPTIMIZED else ()  # else a module's, or a class's
    found = []
    for name in code.co_varnames + code.co_cellvars + code.co_freevars:
        try:
            found.append((name, variables[name]))
        except Exception:  # not set
            continue
    return found


def local_name(frame, child):
    for name, value in variables_of(frame):
        if value is child:
            return text(name)
    return ""


def slot_name(holder, child):
    """Of __slots__, and of what C code shows as an attribute."""
    for base in class_bases(type(holder)) or ():
        for name, getter in list(class_fields(base).items()):
            if type(getter) is MEMBER and name != "__dict__":
                try:
                    if getter.__get__(holder) is child:
                        return text(name)
                except Exception:  # not set
                    continue
    return ""


def closure_name(function, cell):
    code = record.code(function)
    at = place_in(FUNCTION_CLOSURE(function), cell)
    return code.co_freevars[at] if at is not None and at < code.co_freevars.__len__() else "?"


def default_name(function, defaults, value):
    """Of the parameter that has it as its default value."""
    code, at = record.code(function), place_in(defaults, value)
    first = code.co_argcount - tuple.__len__(defaults)
    return code.co_varnames[first + at] if at is not None and first >= 0 else "?"


FUNCTION_CLOSURE = class_fields(type(fields)).get("__closure__").__get__
FUNCTION_NAME = class_fields(type(fields)).get("__qualname__").__get__
FUNCTION_GLOBALS = class_fields(type(fields)).get("__globals__").__get__


class Pieces:
    def __init__(self, torch, ends):
        self.names = {}  # address of a class -> names of attributes
        self.torch, self.ends = torch, ends  # ends: addresses of modules' dictionaries

    def of(self, holder, child, above):
        """`above` refers to `holder`; None where that is a root."""
        if is_a(holder, dict):
            return self.of_dict(holder, child, above)
        name = kind_name(holder)
        if is_a(holder, list) or name == "deque":
            count = size_of(holder)
            return element(place_in(holder, child) if count <= FEW and name != "deque" else None, count)
        if is_a(holder, tuple):
            if above is not None and record.code(above) is not None:
                return closure_name(above, child) if FUNCTION_CLOSURE(above) is holder else default_name(above, holder, child)
            at = place_in(holder, child)
            named = class_fields(type(holder)).get("_fields") if type(holder) is not tuple else None
            if at is not None and is_a(named, tuple) and at < tuple.__len__(named):
                return "." + text(tuple.__getitem__(named, at))
            return element(at, tuple.__len__(holder))
        if name in ("set", "frozenset"):
            return "{*}"
        if name == "cell":
            return ""
        return self.of_object(holder, child, name)

    def of_dict(self, holder, child, above):
        count = dict.__len__(holder)
        is_attributes = above is not None and (fields(above) is holder or is_a(above, type) or record.code(above) is not None)
        if is_attributes or address(holder) in self.ends:
            key = key_in(holder, child)
            return "." + text(key) if text(key) else "[*]"
        return element(key_in(holder, child) if count <= FEW else None, count)

    def of_object(self, holder, child, name):
        kind = type(holder)
        if kind is type(child) and name == "traceback":
            return ""  # the next one of the chain
        if name == "frame" and kind_name(child) == "frame":
            return ""  # the one that called it
        if name == "frame":
            return " -> " + text(holder.f_code.co_name) + ": " + (local_name(holder, child) or "a variable")
        if name == "traceback":
            return ""
        if kind_name(child) == "traceback":
            return ".__traceback__"
        if is_a(holder, BaseException) and is_a(child, BaseException):
            return ".__context__"  # or its cause, which is the same where `raise ... from` names it
        if record.code(holder) is not None:
            return ""
        if name == "method":
            return ""
        if name in ("generator", "coroutine", "async_generator"):
            return " -> a variable of the " + name + " " + text(holder.__name__)
        if is_a(holder, self.torch.Tensor) and not is_a(child, self.torch.Tensor):
            return "" if is_a(child, dict) else ".grad_fn"
        if is_a(child, dict) and fields(holder) is child:
            return ""
        if is_a(holder, type):
            return "" if is_a(child, dict) else "?"
        found = self.attribute_name(holder, child)
        return "." + found if found else ""

    def attribute_name(self, holder, child):
        """By the names that others of its class had, so that not each gets a dictionary of its attributes which it had not."""
        kind = type(holder)
        names = self.names.setdefault(address(kind), [])
        for name in names:
            if defined(kind, name) is None and record.attribute(holder, name) is child:
                return name
        found = slot_name(holder, child) or text(key_in(fields(holder), child))
        if found and names.__len__() < FEW:
            names.append(found)
        return found


class Graphs:
    """The nodes of autograd's graphs, by their numbers: what they have saved is the recorder's to know, since PyTorch would run hooks of the program to give it."""

    MOST_NODES = 200_000

    def __init__(self, torch, deadline):
        self.torch, self.deadline = torch, deadline
        self.known = {}  # numbers
        self.cut = ""

    def of(self, tensors):
        """Numbers, as they are in the trace, of nodes that no other tensor led to."""
        found, waiting, looked = [], list.copy(tensors), 0
        while waiting and not self.cut:
            node = waiting.pop()
            looked += 1
            if self.known.__len__() > self.MOST_NODES or looked & 63 == 0 and record.work() > self.deadline:
                self.cut = "graphs of autograd are too large"
            if is_a(node, self.torch.Tensor):
                waiting += [each for each in self.torch.read(self.torch.of_graph, node) if each is not None]
                continue
            number = self.ask(node, "_sequence_nr")
            if type(number) is not int or not 0 <= number < NO_NUMBER or number in self.known:
                continue
            self.known[number] = True
            found.append(number + 1 & 0xFFFFFFFF)
            for edge in elements(self.ask(node, "next_functions")):
                if is_a(edge, tuple) and tuple.__getitem__(edge, 0) is not None:
                    waiting.append(tuple.__getitem__(edge, 0))
        return found

    def ask(self, node, name):
        """Of C code alone."""
        found = defined(type(node), name)
        question = found.__get__ if is_getter(found) else found
        if question is None or record.code(question) is not None:
            return None
        (answer,) = record.read((None, question), node) or (None,)
        return answer


NO_NUMBER = (1 << 64) - 1  # of the node that adds up a gradient

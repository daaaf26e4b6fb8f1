# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How the program's objects are looked at without running any code of the program: a part of the helper, before the others.

Attributes are read from the plain dictionaries behind them, by Python's own descriptors; what a class overrides (methods, properties, __getattr__,
__class__, __iter__, a metaclass) is passed by. Names that a program may have replaced in `builtins` are taken from literals.
"""

tuple, list, dict, str, int, bytes, float = ().__class__, [].__class__, {}.__class__, "".__class__, (0).__class__, b"".__class__, (0.0).__class__
type, object = tuple.__class__, tuple.__base__
Exception = record.Exception
address, is_a = record.address, record.is_a

class_fields = type.__dict__["__dict__"].__get__  # of a class: its own dictionary
class_bases = type.__dict__["__mro__"].__get__
class_name = type.__dict__["__name__"].__get__
class_module, class_flags = type.__dict__["__module__"].__get__, type.__dict__["__flags__"].__get__
HEAP_TYPE = 1 << 9
GETTER, MEMBER = type(type.__dict__["__dict__"]), type(type.__dict__["__basicsize__"])  # descriptors that only C code can make


def is_getter(value):
    """Classes are told apart by `is` alone: their == may be a metaclass's."""
    return type(value) is GETTER or type(value) is MEMBER


def text(value):
    """An exact str; "" for what is none."""
    return "".join((value,)) if is_a(value, str) else ""


def fields(thing):
    """The dictionary of its attributes; empty where it has none."""
    bases = class_bases(type(thing)) or ()
    at = bases.__len__()
    while at:  # the outermost class that has one: `object` has none
        at -= 1
        getter = class_fields(bases[at]).get("__dict__")
        if is_getter(getter) and bases[at] is not type:
            found = getter.__get__(thing)
            return found if is_a(found, dict) else {}
    return {}


def field(thing, *names):
    """The attribute's attribute's ... value; None where there is none."""
    for name in names:
        thing = dict.get(fields(thing), name)
    return thing


def defined(kind, name):
    """What a class, or the first of its bases that does, defines under a name."""
    for each in class_bases(kind) or ():
        found = class_fields(each).get(name)
        if found is not None:
            return found
    return None


def slot(thing, name):
    """The value of one of a class's __slots__; None."""
    found = defined(type(thing), name)
    return found.__get__(thing) if is_getter(found) else None


def pairs(mapping):
    """(key, value) of a dict as it is now; () for what is none."""
    return list(dict.items(mapping)) if is_a(mapping, dict) else ()


def elements(sequence):
    """A copy of a list or tuple; () for what is neither."""
    if is_a(sequence, list):
        return list.copy(sequence)
    return list(tuple.__iter__(sequence)) if is_a(sequence, tuple) else ()


def module_fields(name):
    """The globals of a module of the program that is there; {}."""
    return fields(dict.get(record.modules(), name))


def module_name(kind):
    """Of a class; "" where it was taken away."""
    is_taken = class_flags(kind) & HEAP_TYPE and class_fields(kind).get("__module__") is None
    return "" if is_taken else text(class_module(kind))


def codes_within(code, found=None):
    """All code objects of what was compiled as one."""
    found = [] if found is None else found
    found.append(code)
    for constant in code.co_consts:
        if type(constant) is type(code):
            codes_within(constant, found)
    return found


def varint(value):
    out = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(pairs_of_fields):
    """A protobuf message of (number, value) pairs: int, str, or bytes of a message; nothing for 0, "" and None."""
    out = b""
    for number, value in pairs_of_fields:
        if type(value) is str and value:
            data = value.encode("utf-8", "replace")[:1000]
            out += varint(number << 3 | 2) + varint(data.__len__()) + data
        elif type(value) is bytes:
            out += varint(number << 3 | 2) + varint(value.__len__()) + value
        elif value and type(value) is not str:
            out += varint(number << 3) + varint(value)
    return out


def packed(number, values):
    """A column of numbers, 0 among them."""
    data = b"".join([varint(value) for value in values])
    return varint(number << 3 | 2) + varint(data.__len__()) + data

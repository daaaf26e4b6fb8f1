# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Who holds a tensor, and by which references it can be reached from a module, class, function or generator: "the global __main__.cache['keys'][310]".

Objects are read by Python's own descriptors, whatever their classes override, so no code of the program is run. Nothing is kept. What an object refers to is
what Python's collector knows; each step up from the tensors is one pass over all objects, and after two seconds of processor time there are no more of them.

    held = holders_of(tensors, gc.get_objects())
    texts, chain = held[id(tensor)]
"""

import collections
import gc
import heapq
import time
import types

MOST_PARENTS = 8
MOST_LEVELS, LEAST_LEVELS, MOST_SECONDS = 24, 4, 2.0  # of processor time; from a tensor up to what holds it, what holds that, and so on
CHUNK_OF_OBJECTS = 64
NO_ROOT, AS_KEY = 1000, 100  # how far it is from no root, and from a dict to one of its keys
CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)

# Of a class, whatever its metaclass says; and the descriptors that only C code can make.
bases_of, fields_of_class, name_of = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__qualname__"))
GETTERS = (types.GetSetDescriptorType, types.MemberDescriptorType)
GLOBALS_OF, CODE_OF, QUALNAME_OF = (types.FunctionType.__dict__[name].__get__ for name in ("__globals__", "__code__", "__qualname__"))
FREE_NAMES_OF = types.CodeType.__dict__["co_freevars"].__get__
# Where a chain of references begins, with how it is called; and classes.
ROOTS = {types.ModuleType: None, types.FunctionType: QUALNAME_OF}
for each in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
    ROOTS[each] = each.__dict__["__qualname__"].__get__
NO_HOLDERS = {types.FrameType, types.CodeType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, *GETTERS}
PARTS_OF_FUNCTIONS = {".__closure__": "closure", ".__defaults__": "defaults", ".__kwdefaults__": "defaults"}
PARTS_OF_MODULES = ("._parameters", "._buffers", "._modules")


def is_subclass(kind, wanted):
    wanted = wanted if type(wanted) is tuple else (wanted,)
    return any(base is each for base in bases_of(kind) for each in wanted)


def text(value):
    return value if type(value) is str else ""


def referrers(wanted, objects):
    """[(object, what it refers to of those whose ids are wanted)]. The types of objects are asked alone, never the objects: they may be of any make."""
    found = []
    for start in range(0, len(objects), CHUNK_OF_OBJECTS):
        some = objects[start : start + CHUNK_OF_OBJECTS]
        if wanted.isdisjoint(map(id, gc.get_referents(*some))):
            continue
        for each in some:
            referred = [other for other in gc.get_referents(each) if id(other) in wanted]
            if referred:
                found.append((each, referred))
    return found


def parents_of(wanted, objects):
    """id of an object -> what refers to it: of the tensors, of what holds them, and so on until all have a root or the time is over."""
    parents, level, deadline = {}, set(wanted), time.thread_time() + MOST_SECONDS
    objects = [each for each in objects if type(each) not in NO_HOLDERS]
    for number in range(MOST_LEVELS):
        above = {}
        for parent, referred in referrers(level, objects):
            for each in referred:
                if type(parent) is types.FunctionType and each is GLOBALS_OF(parent):
                    continue  # a module's
                known = parents.setdefault(id(each), [])
                if id(each) in wanted or len(known) < MOST_PARENTS or type(parent) is types.ModuleType:
                    known.append(parent)
                    above[id(parent)] = parent
        level = {key for key, parent in above.items() if type(parent) not in ROOTS and not is_subclass(type(parent), type) and key not in parents}
        if not level or number >= LEAST_LEVELS and time.thread_time() > deadline:
            break
    return parents


def ways_up(parents, indexes):
    """id of an object -> (how far, the one of its parents that is on the shortest way to a root; a module is the best one)."""
    children, waiting, ways, done = {}, [], {}, set()
    for child, some in parents.items():
        for parent in some:
            children.setdefault(id(parent), []).append((child, parent))
            if id(parent) not in parents:
                rank = 0 if type(parent) is types.ModuleType else 1 if type(parent) in ROOTS or is_subclass(type(parent), type) else NO_ROOT
                waiting.append((rank, id(parent)))
    heapq.heapify(waiting)
    while waiting:
        cost, key = heapq.heappop(waiting)
        if key in done:
            continue
        done.add(key)
        for child, parent in children.get(key, ()):
            further = cost + (AS_KEY if is_subclass(type(parent), dict) and not is_value(parent, child, indexes) else 1)
            if child not in ways or further < ways[child][0]:
                ways[child] = (further, parent)
                heapq.heappush(waiting, (further, child))
    return ways


def is_value(parent, child, indexes):
    place_in(parent, None, indexes)
    return child in indexes[id(parent)]


def holders_of(found, objects):
    """id of a tensor -> (texts of what holds it, those that name a place first; the chain of references from a root, "" where none was found)."""
    indexes = {}
    parents = parents_of({id(each) for each in found}, objects)
    ways = ways_up(parents, indexes)
    held = {}
    for tensor in found:
        texts = [text_of_place([tensor, holder], ways, indexes, is_whole=False) for holder in parents.get(id(tensor), ())]
        texts.sort(key=how_plain)
        cost, holder = ways.get(id(tensor), (NO_ROOT, None))
        held[id(tensor)] = (texts, text_of_place([tensor, holder], ways, indexes, is_whole=True) if cost < NO_ROOT else "")
    return held


def how_plain(text):
    """Sorts names of holders: an attribute first, then an element of a list, a key of a dict, "a list of 4"; those alike by their text, for the same answer each time."""
    return text.startswith("a "), text.endswith(".keys()"), text.endswith("]") and not text.endswith("']"), text


def text_of_place(path, ways, indexes, is_whole):
    """Where `path[0]` lies, which `path[1]` refers to: from the module, class, function or object around it on, or from the root."""
    while (is_whole or is_container(type(path[-1]))) and id(path[-1]) in ways and len(path) < 3 * MOST_LEVELS:
        path.append(ways[id(path[-1])][1])
    top = path[-1]
    if is_container(type(top)):
        place = place_in(top, path[0], indexes) if len(path) == 2 and is_subclass(type(top), dict) else None
        return f"a dict, at {text_of_key(place)}" if place is not None else f"a {name_of(type(top))} of {size_of(top)}"
    head, pieces = head_of(top), [piece_of(path[i], path[i - 1], path[i + 1] if i + 1 < len(path) else None, indexes) for i in range(len(path) - 1, 0, -1)]
    for i, piece in enumerate(pieces[:-1]):
        if piece in PARTS_OF_MODULES and pieces[i + 1].startswith("['"):  # of an nn.Module
            pieces[i : i + 2] = ["", "." + pieces[i + 1][2:-2]]
    place = "".join(pieces)
    for attribute, words in PARTS_OF_FUNCTIONS.items():
        if type(top) is types.FunctionType and place.startswith(attribute):
            head, place = f"the {words} of {text(QUALNAME_OF(top))}", place[len(attribute) :]
    return head + place if place or type(top) in ROOTS else f"an object of {text(fields_of_class(type(top)).get('__module__'))}.{name_of(type(top))}"


def head_of(top):
    kind = type(top)
    if kind is types.ModuleType:
        return f"the global {text(attributes_of(top).get('__name__'))}"
    if is_subclass(kind, type):
        return f"the class {name_of(top)}"
    if kind in ROOTS:
        return f"the {'function' if kind is types.FunctionType else 'generator'} {text(ROOTS[kind](top))}"
    return name_of(kind)


def piece_of(parent, child, above, indexes):
    """What leads from an object to one that it refers to; `above` is where the way comes from."""
    kind = type(parent)
    place = place_in(parent, child, indexes) if is_container(kind) else None
    if is_subclass(kind, dict):
        is_attributes = above is not None and (attributes_of(above) is parent or is_subclass(type(above), type) and kind is dict)
        return ".keys()" if place is None else f".{place}" if is_attributes and type(place) is str else f"[{text_of_key(place)}]"
    if is_subclass(kind, (set, frozenset)):
        return "{...}"
    if kind is not types.CellType and is_container(kind):
        names = FREE_NAMES_OF(CODE_OF(above)) if type(child) is types.CellType and type(above) is types.FunctionType else ()
        return f".{names[place]}" if place is not None and place < len(names) else f"[{0 if place is None else place}]"
    if kind is types.CellType or kind is types.ModuleType or kind in ROOTS and kind is not types.FunctionType:
        return ""
    attributes = attributes_of(parent)
    if child is attributes or is_subclass(kind, type) and type(child) is dict:
        return ""
    name = next((text(name) for name, value in list(attributes.items()) if value is child), "") or slot_of(parent, child)
    return f".{name}" if name else ""


def slot_of(parent, child):
    """Of __slots__, and of objects of C code."""
    for base in bases_of(type(parent)):
        for name, getter in list(fields_of_class(base).items()):
            if type(getter) in GETTERS and name != "__dict__" and (type(getter) is types.MemberDescriptorType or base is types.FunctionType):
                try:
                    if getter.__get__(parent) is child:
                        return text(name)
                except Exception:  # not set
                    continue
    return ""


def is_container(kind):
    return kind is types.CellType or is_subclass(kind, CONTAINERS)


def size_of(container):
    base = next((base for base in CONTAINERS if is_subclass(type(container), base)), None)
    return 1 if base is None else base.__len__(container)


def place_in(container, value, indexes):
    """Its key or number; None: it is a key itself, or in a set. What each container holds is looked up once, since it may be all of what is asked for."""
    index = indexes.get(id(container))
    if index is None:
        index = indexes[id(container)] = {}
        base = next((base for base in (dict, list, tuple, collections.deque) if is_subclass(type(container), base)), None)
        pairs = list(dict.items(container)) if base is dict else enumerate([] if base is None else list(base.__iter__(container)))
        for key, each in pairs:
            index.setdefault(id(each), key)
    return index.get(id(value))


def text_of_key(key):
    """Of a sort whose text is Python's own."""
    return repr(key)[:80] if type(key) is str or type(key) is int else f"a key of {name_of(type(key))}"


def attributes_of(holder):
    for base in bases_of(type(holder))[::-1]:
        getter = fields_of_class(base).get("__dict__")
        if base is not type and type(getter) in GETTERS:
            names = getter.__get__(holder)
            return names if type(names) is dict else {}
    return {}

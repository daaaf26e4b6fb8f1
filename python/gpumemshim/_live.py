# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""On request only: which tensors are alive and who holds them, and what the gradients are like. Works with and without the recorder, where the program
has imported PyTorch; nothing is imported, nothing is kept, and no code of the program is run: objects are read by Python's own descriptors, whatever their
classes override.

tensors() walks all objects that Python's collector knows, which takes about 100 ms for a million. gradients() runs kernels and waits for them.
"""

import collections
import gc
import heapq
import sys
import time
import types
import typing

MOST_HOLDERS, MOST_PARENTS = 4, 8
MOST_LEVELS, MOST_SECONDS = 16, 1.0  # from a tensor up to what holds it, what holds that, and so on
NO_ROOT = 1000
MOST_PLACES = 200_000  # of modules in a model
CHUNK = 1 << 22  # elements of a gradient that are looked at at once: what it takes of memory is a byte for each


class LiveTensor(typing.NamedTuple):
    shape: tuple
    dtype: str
    device: str
    bytes: int  # of its storage, which others may share
    address: int
    shares: int  # tensors that share the storage, itself included
    requires_grad: bool
    holders: tuple  # texts; () where no object holds it that Python's collector knows: a local variable, or C++ (autograd)
    chain: str = ""  # of references, from a module, class, function or generator; "" where none was found

    def __str__(self):
        held = "; ".join(self.holders) or "a local variable, or C++ code"
        return f"{self.bytes:,} B {self.dtype}{list(self.shape)} on {self.device}: held by {held}"


class GradientStats(typing.NamedTuple):
    name: str
    elements: int
    nan: int
    inf: int
    norm: float  # this and the next: of the finite ones
    min: float
    max: float
    mean: float

    def __str__(self):
        wrong = f", {self.nan:,} NaN, {self.inf:,} Inf" if self.nan or self.inf else ""
        return f"{self.name}: norm {self.norm:.6g}, {self.min:.6g} .. {self.max:.6g}, mean {self.mean:.6g}{wrong}"


# Of a class, whatever its metaclass says; and the descriptors that only C code can make.
bases_of, fields_of_class, name_of = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__qualname__"))
GETTERS = (types.GetSetDescriptorType, types.MemberDescriptorType)
GLOBALS_OF, CODE_OF, QUALNAME_OF = (types.FunctionType.__dict__[name].__get__ for name in ("__globals__", "__code__", "__qualname__"))
FREE_NAMES_OF = types.CodeType.__dict__["co_freevars"].__get__
# Where a chain of references begins, with how it is called; and classes.
ROOTS = {types.ModuleType: None, types.FunctionType: QUALNAME_OF}
for each in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
    ROOTS[each] = each.__dict__["__qualname__"].__get__
PARTS_OF_FUNCTIONS = {".__closure__": "closure", ".__defaults__": "defaults", ".__kwdefaults__": "defaults"}
PARTS_OF_MODULES = ("._parameters", "._buffers", "._modules")


def torch_of_the_program():
    torch = sys.modules.get("torch")
    if type(torch) is not types.ModuleType or not {"Tensor", "nn"} <= torch.__dict__.keys():
        return None
    return torch


def instances_of(wanted, objects):
    """By the bases of their types alone; of each type once."""
    known = {}
    for each in objects:
        kind = type(each)
        is_one = known.get(id(kind))
        if is_one is None:
            is_one = known[id(kind)] = is_subclass(kind, wanted)
        if is_one:
            yield each


def is_subclass(kind, wanted):
    wanted = wanted if type(wanted) is tuple else (wanted,)
    return any(base is each for base in bases_of(kind) for each in wanted)


def getters_of(torch):
    """name -> function of a tensor; to be called under torch._C.DisableTorchFunction."""
    found = {}
    base = bases_of(torch.Tensor)[1]
    for name in ("device", "untyped_storage", "grad", "is_leaf", "numel", "shape", "dtype", "requires_grad"):
        value = fields_of_class(base)[name]
        found[name] = value.__get__ if type(value) in GETTERS else value
    return types.SimpleNamespace(**found)


def decides_itself(kind, torch):
    """A class of the program that has a say in what its tensors' size and place are."""
    for base in bases_of(kind):
        own = fields_of_class(base).get("__torch_dispatch__")
        if own is not None:
            return own is not fields_of_class(torch.Tensor).get("__torch_dispatch__") and not text(fields_of_class(kind).get("__module__")).startswith("torch.")
    return False


def text(value):
    return value if type(value) is str else ""


def tensors(device="cuda"):
    """The live tensors of a sort of device, largest first, each storage's largest tensor once.

        for tensor in gpumemshim.tensors()[:10]:
            print(tensor)

    Tensors that only C++ holds (autograd, another library) are not seen.
    """
    torch = torch_of_the_program()
    if torch is None:
        return []
    objects = gc.get_objects()
    with torch._C.DisableTorchFunction():
        of = getters_of(torch)
        found = [each for each in instances_of(torch.Tensor, objects) if not decides_itself(type(each), torch) and storage_of(each, device, of)]
        held = holders_of(found, objects)
        gradients = {}
        for each in found:
            gradient = of.grad(each) if of.is_leaf(each) else None
            if gradient is not None:
                gradients[id(gradient)] = gradient
                texts, chain = held.get(id(each)) or ([], "")
                others = held.get(id(gradient)) or ([], "")
                held[id(gradient)] = ([*others[0], f"the gradient of {(texts or ['a tensor'])[0]}"], others[1] or chain and f"{chain}.grad")
        by_storage = {}
        seen = {id(each) for each in found}
        for each in [*found, *(each for each in gradients.values() if id(each) not in seen)]:
            by_storage.setdefault(storage_of(each, device, of), []).append(each)
        by_storage.pop(None, None)
        return sorted((row_of(place, group, held, of) for place, group in by_storage.items()), key=lambda row: -row.bytes)


def row_of(place, group, held, of):
    shown = max(group, key=of.numel)
    holders = [text for each in group for text in held.get(id(each), ((), ""))[0]]
    chain = min((held[id(each)][1] for each in group if id(each) in held and held[id(each)][1]), key=len, default="")
    more = [f"{len(holders) - MOST_HOLDERS} others"] if len(holders) > MOST_HOLDERS else []
    dtype = str(of.dtype(shown)).replace("torch.", "")
    return LiveTensor(tuple(of.shape(shown)), dtype, str(of.device(shown)), place[1], place[0], len(group), of.requires_grad(shown), tuple(holders[:MOST_HOLDERS] + more), chain)


def storage_of(tensor, device, of):
    """(address, bytes), or None where it has no memory there."""
    try:
        if of.device(tensor).type != device:
            return None
        storage = of.untyped_storage(tensor)
        return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() else None
    except Exception:  # FakeTensor, sparse and the like
        return None


def referrers(wanted, objects):
    """[(object, what it refers to of those whose ids are wanted)]. The types of objects are asked alone, never the objects: they may be of any make."""
    found = []
    for each in objects:
        if type(each) is not types.FrameType:
            referred = [other for other in gc.get_referents(each) if id(other) in wanted]
            if referred:
                found.append((each, referred))
    return found


def parents_of(wanted, objects):
    """id of an object -> what refers to it: of the tensors, of what holds them, and so on until all have a root or the time is over."""
    parents, level, deadline = {}, set(wanted), time.monotonic() + MOST_SECONDS
    for _ in range(MOST_LEVELS):
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
        if not level or time.monotonic() > deadline:
            break
    return parents


def ways_up(parents):
    """id of an object -> (how far, the one of its parents that is on the shortest way to a root; a module is the best one)."""
    children, waiting, ways = {}, [], {}
    for child, some in parents.items():
        for parent in some:
            children.setdefault(id(parent), []).append((child, parent))
            if id(parent) not in parents:
                rank = 0 if type(parent) is types.ModuleType else 1 if type(parent) in ROOTS or is_subclass(type(parent), type) else NO_ROOT
                waiting.append((rank, id(parent)))
    heapq.heapify(waiting)
    while waiting:
        cost, key = heapq.heappop(waiting)
        for child, parent in children.get(key, ()):
            if child not in ways or cost + 1 < ways[child][0]:
                ways[child] = (cost + 1, parent)
                heapq.heappush(waiting, (cost + 1, child))
    return ways


def holders_of(found, objects):
    """id of a tensor -> (texts of what holds it, those that name a place first; the chain of references from a root, "" where none was found)."""
    parents = parents_of({id(each) for each in found}, objects)
    ways = ways_up(parents)
    held = {}
    for tensor in found:
        texts = [text_of_place([tensor, holder], ways, is_whole=False) for holder in parents.get(id(tensor), ())]
        texts.sort(key=lambda text: (text.startswith("a "), text.endswith("]") and not text.endswith("']")))  # "a list of 4"; an element of a list
        cost, holder = ways.get(id(tensor), (NO_ROOT, None))
        held[id(tensor)] = (texts, text_of_place([tensor, holder], ways, is_whole=True) if cost < NO_ROOT else "")
    return held


def text_of_place(path, ways, is_whole):
    """Where `path[0]` lies, which `path[1]` refers to: from the module, class, function or object around it on, or from the root."""
    while (is_whole or is_container(type(path[-1]))) and id(path[-1]) in ways and len(path) < 3 * MOST_LEVELS:
        path.append(ways[id(path[-1])][1])
    top = path[-1]
    if is_container(type(top)):
        if len(path) == 2 and is_subclass(type(top), dict):
            return f"a dict, at {key_of(top, path[0])}"
        return f"a {name_of(type(top))} of {len(top)}"
    head, pieces = head_of(top), [piece_of(path[i], path[i - 1], path[i + 1] if i + 1 < len(path) else None) for i in range(len(path) - 1, 0, -1)]
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


def piece_of(parent, child, above):
    """What leads from an object to one that it refers to; `above` is where the way comes from."""
    kind = type(parent)
    if is_subclass(kind, dict):
        is_attributes = above is not None and (attributes_of(above) is parent or is_subclass(type(above), type) and type(parent) is dict)
        key = key_of(parent, child)
        return f".{key[1:-1]}" if is_attributes and key.startswith("'") else f"[{key}]"
    if is_subclass(kind, (list, tuple, collections.deque)):
        number = next((i for i, value in enumerate(tuple(base_of(kind).__iter__(parent))) if value is child), 0)
        names = FREE_NAMES_OF(CODE_OF(above)) if type(child) is types.CellType and type(above) is types.FunctionType else ()
        return f".{names[number]}" if number < len(names) else f"[{number}]"
    if is_subclass(kind, (set, frozenset)):
        return "{...}"
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


def base_of(kind):
    return next(base for base in (list, tuple, collections.deque) if is_subclass(kind, base))


def is_container(kind):
    return kind is types.CellType or is_subclass(kind, (dict, list, tuple, set, frozenset, collections.deque))


def key_of(holder, value):
    """Of a sort whose text is Python's own."""
    key = next((key for key, each in list(dict.items(holder)) if each is value), None)
    return repr(key)[:80] if type(key) is str or type(key) is int else f"a key of {name_of(type(key))}"


def attributes_of(holder):
    for base in bases_of(type(holder))[::-1]:
        getter = fields_of_class(base).get("__dict__")
        if base is not type and type(getter) in GETTERS:
            names = getter.__get__(holder)
            return names if type(names) is dict else {}
    return {}


def gradients(model=None):
    """What the gradients of a model's parameters are like; without a model, of all models of the program. Those without a gradient are left out.

        print(*gpumemshim.gradients(model), sep="\\n")
    """
    torch = torch_of_the_program()
    if torch is None:
        return []
    rows, seen = [], set()
    with torch._C.DisableTorchFunction():
        of = getters_of(torch)
        for root in [model] if model is not None else outermost_modules(torch):
            for name, parameter in named_parameters(torch, root):
                gradient = of.grad(parameter) if of.is_leaf(parameter) and id(parameter) not in seen else None
                seen.add(id(parameter))
                if gradient is not None and not decides_itself(type(gradient), torch):
                    rows.append(stats_of(torch, name, gradient))
    return rows


def named_parameters(torch, root):
    """As nn.Module.named_parameters(), from its dictionaries."""
    waiting, seen = [("", root)], set()
    while waiting and len(seen) < MOST_PLACES:
        prefix, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        for name, parameter in members_of(module, "_parameters", torch.Tensor):
            if not decides_itself(type(parameter), torch):
                yield prefix + name, parameter
        waiting += [(f"{prefix}{name}.", child) for name, child in members_of(module, "_modules", torch.nn.Module)[::-1]]


def members_of(module, name, wanted):
    members = attributes_of(module).get(name)
    pairs = list(dict.items(members)) if is_subclass(type(members), dict) else []
    if text(fields_of_class(type(members)).get("__module__")) == "torch.jit._script":  # of a ScriptModule: PyTorch's own
        pairs = list(members.items())
    return [(text(key), value) for key, value in pairs if is_subclass(type(value), wanted)]


def outermost_modules(torch):
    modules = list(instances_of(torch.nn.Module, gc.get_objects()))
    inner = {id(child) for module in modules for _, child in members_of(module, "_modules", torch.nn.Module)}
    return [module for module in modules if id(module) not in inner]


def stats_of(torch, name, gradient):
    with torch.no_grad():
        flat = getattr(gradient, "_local_tensor", gradient).detach()
        flat = (flat.coalesce().values() if flat.is_sparse else flat).reshape(-1)
        nan = inf = 0
        squares = total = 0.0
        low, high = float("inf"), float("-inf")
        for part in flat.split(CHUNK):
            finite = torch.isfinite(part)
            wrong = int((~finite).sum())
            if wrong:
                nans = int(torch.isnan(part).sum())
                nan, inf = nan + nans, inf + wrong - nans
                part = part[finite]
            if part.numel():
                squares += float(torch.linalg.vector_norm(part, dtype=torch.float32)) ** 2
                total += float(part.sum(dtype=torch.float32))
                low, high = min(low, float(part.min())), max(high, float(part.max()))
    finite_ones = flat.numel() - nan - inf
    if finite_ones == 0:
        low = high = float("nan")
    return GradientStats(name, flat.numel(), nan, inf, squares**0.5, low, high, total / finite_ones if finite_ones else float("nan"))


# Answers to `gpumem ctl PID tensors` and `gradients`: "NUMBER.FIELD VALUE" on a line, as many rows as there is room for.
ROOM = 40 << 10


def answer_tensors():
    rows = tensors()
    head = [("device_bytes", sum(row.bytes for row in rows)), ("rows", len(rows))]
    return lines(head, [[*row._asdict().items()] for row in rows])


def answer_gradients():
    rows = sorted(gradients(), key=lambda row: (-(row.nan + row.inf), -row.norm))
    head = [("nan", sum(row.nan for row in rows)), ("inf", sum(row.inf for row in rows)), ("rows", len(rows))]
    return lines(head, [[*row._asdict().items()] for row in rows])


def lines(head, rows):
    out = b"".join(line(name, value) for name, value in head)
    for number, row in enumerate(rows):
        text = b"".join(line(f"{number}.{name}", value) for name, value in row)
        if len(out) + len(text) > ROOM:
            break
        out += text
    return out


def line(name, value):
    """Control characters and backslashes as \\xNN."""
    text = "; ".join(map(str, value)) if name.endswith(".holders") else str(value)
    data = text[:1000].encode("utf-8", "replace")
    return name.encode() + b" " + b"".join(b"\\x%02x" % byte if byte < 32 or byte in (92, 127) else bytes([byte]) for byte in data) + b"\n"

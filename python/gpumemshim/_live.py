# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""On request only: which tensors are alive and who holds them, and what the gradients are like. Works with and without the recorder, where the program
has imported PyTorch; nothing is imported, and nothing is kept.

tensors() walks all objects that Python's collector knows, which takes about 100 ms for a million. gradients() runs kernels and waits for them.
"""

import gc
import sys
import types
import typing

MOST_HOLDERS, MOST_DICTS = 4, 4
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


def torch_of_the_program():
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "Tensor") else None


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
    found = [each for each in objects if torch.Tensor in type(each).__mro__ and storage_of(each, device)]
    held = holders_of(found, objects)
    gradients = {id(each.grad): each.grad for each in found if each.is_leaf and each.grad is not None}
    for each in found:
        if each.is_leaf and each.grad is not None:
            held.setdefault(id(each.grad), []).append(f"the gradient of {(held.get(id(each)) or ['a tensor'])[0]}")
    by_storage = {}
    seen = {id(each) for each in found}
    for each in [*found, *(each for each in gradients.values() if id(each) not in seen)]:
        by_storage.setdefault(storage_of(each, device), []).append(each)
    by_storage.pop(None, None)
    return sorted((row_of(place, group, held) for place, group in by_storage.items()), key=lambda row: -row.bytes)


def row_of(place, group, held):
    shown = max(group, key=lambda each: each.numel())
    holders = [text for each in group for text in held.get(id(each), ())]
    more = [f"{len(holders) - MOST_HOLDERS} others"] if len(holders) > MOST_HOLDERS else []
    dtype = str(shown.dtype).replace("torch.", "")
    return LiveTensor(tuple(shown.shape), dtype, str(shown.device), place[1], place[0], len(group), shown.requires_grad, tuple(holders[:MOST_HOLDERS] + more))


def storage_of(tensor, device):
    """(address, bytes), or None where it has no memory there."""
    try:
        if tensor.device.type != device:
            return None
        storage = tensor.untyped_storage()
        return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() else None
    except Exception:  # FakeTensor, sparse and the like
        return None


def referrers(wanted, objects, own):
    """[(object, what it refers to of those whose ids are wanted)]. The types of objects are asked alone, never the objects: they may be of any make."""
    found = []
    for each in objects:
        if id(each) not in own and type(each) is not types.FrameType:
            referred = [other for other in gc.get_referents(each) if id(other) in wanted]
            if referred:
                found.append((each, referred))
    return found


def holders_of(found, objects):
    """id of a tensor -> texts, those that name a place first."""
    wanted, own = {id(each) for each in found}, {id(found), id(objects)}
    held, owners = {}, {}
    holders = referrers(wanted, objects, own)
    dicts = {id(each) for each, _ in holders if dict in type(each).__mro__}
    own.add(id(holders))
    for _ in range(MOST_DICTS):  # a state in a dict in a dict in the dict of an optimizer's attributes
        if not dicts:
            break
        parents = referrers(dicts, objects, own)
        own.add(id(parents))
        dicts = set()
        for parent, referred in parents:
            for each in referred:
                # The globals of a module are its functions', too.
                if type(parent) is types.ModuleType or type(parent) is not types.FunctionType and id(each) not in owners:
                    owners[id(each)] = parent
            if dict in type(parent).__mro__ and id(parent) not in owners:
                dicts.add(id(parent))
    for each, referred in holders:
        for tensor in referred:
            held.setdefault(id(tensor), []).append(text_of(each, tensor, owners))
    for texts in held.values():
        texts.sort(key=lambda text: text.startswith("a"))  # "a list of 4"
    return held


def text_of(holder, tensor, owners):
    kind = type(holder)
    if dict in kind.__mro__:
        name = next((str(key)[:80] for key, value in list(dict.items(holder)) if value is tensor), None)
        return f"a key of a {kind.__name__}" if name is None else text_of_dict(holder, name, owners)
    if kind in (list, tuple):
        return f"a {kind.__name__} of {len(holder)}"
    if kind is types.CellType:
        return "a closure"
    name = next((name for name, value in attributes_of(holder).items() if value is tensor), "")
    return f"{kind.__qualname__}.{name}" if name else f"an object of {kind.__module__}.{kind.__qualname__}"


def text_of_dict(holder, name, owners):
    path, owner = {id(holder)}, owners.get(id(holder))
    for _ in range(MOST_DICTS):
        if owner is None or dict not in type(owner).__mro__:
            break
        path.add(id(owner))
        owner = owners.get(id(owner))
    kind = type(owner)
    if kind is types.ModuleType:
        return f"the global {owner.__name__}.{name}"
    if owner is None or kind in (list, tuple) or dict in kind.__mro__:
        return f"a dict, at {name!r}"
    attributes = attributes_of(owner)
    if id(attributes) == id(holder):
        return f"{kind.__qualname__}.{name}"
    attribute = next((key for key, value in attributes.items() if id(value) in path), None)
    if attribute in ("_parameters", "_buffers"):  # of an nn.Module
        return f"{kind.__qualname__}.{name}"
    return f"a dict of {kind.__qualname__}, at {name!r}" if attribute is None else f"{kind.__qualname__}.{attribute}[...][{name!r}]"


def attributes_of(holder):
    try:
        names = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return {}
    return names if type(names) is dict else {}


def gradients(model=None):
    """What the gradients of a model's parameters are like; without a model, of all models of the program. Those without a gradient are left out.

        print(*gpumemshim.gradients(model), sep="\\n")
    """
    torch = torch_of_the_program()
    if torch is None:
        return []
    rows, seen = [], set()
    for root in [model] if model is not None else outermost_modules(torch):
        for name, parameter in root.named_parameters():
            if parameter.grad is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                rows.append(stats_of(torch, name, parameter.grad))
    return rows


def outermost_modules(torch):
    modules = [each for each in gc.get_objects() if torch.nn.Module in type(each).__mro__]
    inner = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
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

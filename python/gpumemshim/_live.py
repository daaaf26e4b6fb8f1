# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""On request only: which tensors are alive and who holds them, and what the gradients are like. Works with and without the recorder, where the program
has imported PyTorch; nothing is imported, nothing is kept, and no code of the program is run: objects are read by Python's own descriptors, whatever their
classes override.

tensors() walks all objects that Python's collector knows, which takes about 100 ms for a million. gradients() runs kernels and waits for them.
"""

import gc
import sys
import types
import typing

if "holders_of" not in globals():  # in the recorder they are one source
    from gpumemshim._holders import GETTERS, attributes_of, bases_of, fields_of_class, holders_of, is_subclass, name_of, text

MOST_HOLDERS = 4
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
    nan: typing.Optional[int]  # None, as all that follow, where no values exist: simulated CUDA computes none
    inf: typing.Optional[int]
    norm: typing.Optional[float]  # this and the next: of the finite ones
    min: typing.Optional[float]
    max: typing.Optional[float]
    mean: typing.Optional[float]

    def __str__(self):
        if self.nan is None:
            return f"{self.name}: no values (simulated CUDA computes none)"
        wrong = f", {self.nan:,} NaN, {self.inf:,} Inf" if self.nan or self.inf else ""
        return f"{self.name}: norm {self.norm:.6g}, {self.min:.6g} .. {self.max:.6g}, mean {self.mean:.6g}{wrong}"


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
        return sorted((row_of(place, group, held, of) for place, group in by_storage.items()), key=lambda row: (-row.bytes, row.holders))


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


def has_values(tensor):
    """Whether a tensor's numbers are real: not on a simulated GPU, where kernels run nothing, nor on meta."""
    return tensor.device.type != "meta" and not (tensor.is_cuda and is_simulated())


def is_simulated():
    """Whether the driver of this process is simcuda, which has functions of its own beside CUDA's. Loads nothing."""
    import ctypes
    import os

    try:
        return hasattr(ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD), "simcuda_used_bytes")
    except OSError:
        return False


def stats_of(torch, name, gradient):
    if not has_values(gradient):
        return GradientStats(name, gradient.numel(), None, None, None, None, None, None)
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


# Answers to `gpumemshim ctl PID tensors` and `gradients`: "NUMBER.FIELD VALUE" on a line, as many rows as there is room for.
ROOM = 40 << 10


def answer_tensors():
    rows = tensors()
    head = [("device_bytes", sum(row.bytes for row in rows)), ("rows", len(rows))]
    return lines(head, [[*row._asdict().items()] for row in rows])


def answer_gradients():
    rows = gradients()
    known = sorted((row for row in rows if row.nan is not None), key=lambda row: (-(row.nan + row.inf), -row.norm))
    head = [("nan", sum(row.nan for row in known)), ("inf", sum(row.inf for row in known)), ("without_values", len(rows) - len(known)), ("rows", len(rows))]
    rows = known + [row for row in rows if row.nan is None]
    return lines(head, [[(name, value) for name, value in row._asdict().items() if value is not None] for row in rows])


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

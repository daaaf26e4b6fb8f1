# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Models, tensors and optimizers whose classes run code wherever an onlooker would ask them something: it ends the program, never ends, takes memory, or
is counted. Prints the counts and PyTorch's own numbers; nothing of it may change under the recorder.

    hostile.py CASE...           prints a JSON line {case: [counts, bytes allocated, peak]}
    hostile.py --apart CASE...   as apart.py has it
"""

import builtins
import collections
import json
import pathlib
import sys
import threading
import types

import apart
import torch
from hostile_classes import COUNTS, CountedDict, CountedList, CountedText, Function, METHODS, Overridden, Wrapper, ending, never_ending
from torch import nn

CASES = {}
KEPT = []  # nothing is freed by the garbage collector, whose time is not the program's to tell


def case(function):
    CASES[function.__name__] = function
    return function


def train(model, optimizer=None, steps=4):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), foreach=False)
    KEPT.append((model, optimizer))
    for _ in range(steps):
        model(torch.randn(8, 32, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def layers(kind=nn.Sequential):
    """On the GPU before it is of a kind that lets nobody look."""
    plain = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8)).cuda()
    if kind is nn.Sequential:
        return plain
    model = kind()
    nn.Module.__getattribute__(model, "_modules").update(plain._modules)
    return model


def parameters_of(model):
    return [parameter for layer in model._modules.values() for parameter in layer._parameters.values() if parameter is not None]


def allocating(self, *_, **__):
    KEPT.append(torch.ones(1 << 20, device="cuda"))
    return iter(())


@case
def methods():
    for method in (ending(SystemExit), ending(KeyboardInterrupt), ending(GeneratorExit), never_ending, allocating):
        model = layers(type("Hostile", (nn.Sequential,), {name: method for name in METHODS}))
        train(model, torch.optim.SGD(parameters_of(model), lr=0.1))


@case
def attributes():
    class Counted(nn.Sequential):
        def __getattr__(self, name):
            COUNTS["getattr " + name] += 1
            return super().__getattr__(name)

        def __getattribute__(self, name):
            COUNTS["getattribute " + name] += 1
            return super().__getattribute__(name)

        __class__ = property(ending(SystemExit))
        __hash__ = ending(SystemExit)
        __eq__ = ending(SystemExit)
        __repr__ = __str__ = __len__ = __bool__ = ending(SystemExit)

    train(layers(Counted), torch.optim.SGD([nn.Parameter(torch.ones(4, device="cuda"))], lr=0.1))


@case
def own_dictionary():
    class Hidden(nn.Sequential):
        __dict__ = property(ending(SystemExit))

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

    model = layers(Hidden)
    train(model, torch.optim.SGD(parameters_of(model), lr=0.1))


@case
def metaclasses():
    class Meta(type):
        def __eq__(cls, other):
            COUNTS["class =="] += 1
            return cls is other

        __hash__ = type.__hash__
        __name__ = property(ending(SystemExit))
        __module__ = property(ending(SystemExit))
        __mro__ = property(ending(SystemExit))
        __instancecheck__ = __subclasscheck__ = __getattr__ = ending(SystemExit)

    def call(self, x):
        return nn.Sequential.forward(self, x)

    train(layers(Meta("Odd", (nn.Sequential,), {"forward": call})), torch.optim.SGD([nn.Parameter(torch.ones(4, device="cuda"))], lr=0.1))


@case
def containers():
    model = layers()
    for module in [model, *model._modules.values()]:
        for name in ("_modules", "_parameters", "_buffers"):
            module.__dict__[name] = CountedDict(module.__dict__[name])
    dict.__setitem__(model._modules, CountedText("more"), nn.Identity())
    optimizer = torch.optim.AdamW([parameter for layer in dict.values(model._modules) for parameter in dict.values(layer._parameters) if parameter is not None], foreach=False)
    optimizer.param_groups = CountedList(CountedDict(group, params=CountedList(group["params"])) for group in optimizer.param_groups)
    optimizer.state = collections.defaultdict(CountedDict)
    train(model, optimizer)


@case
def optimizers():
    class Odd(torch.optim.SGD):
        state = property(ending(SystemExit), lambda self, value: None)
        __hash__ = ending(SystemExit)

        @property
        def param_groups(self):
            COUNTS["param_groups"] += 1
            return self.__dict__["groups"]

        @param_groups.setter
        def param_groups(self, value):
            self.__dict__["groups"] = value

        def step(self, closure=None):
            COUNTS["step"] += 1

    model = layers()
    train(model, Odd([{"params": list(model.parameters())}], lr=0.1))


@case
def tensors():
    model = layers()
    model.register_buffer("counted", torch.ones(8, device="cuda").as_subclass(Function))
    model.register_buffer("wrapped", Wrapper(torch.ones(4, 4)))
    model[3].bias = nn.Parameter(torch.zeros(8, device="cuda"))
    dict.__setitem__(model._parameters, "odd", torch.Tensor._make_subclass(Overridden, torch.ones(4, device="cuda"), True))
    for module in (model, model[3]):
        module.register_forward_pre_hook(lambda *_: None)
    train(model, torch.optim.AdamW(model[0].parameters(), foreach=False))
    model(torch.randn(8, 32, device="cuda").as_subclass(Function))


@case
def modes():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, kinds, arguments=(), options=None):
            COUNTS["mode"] += 1
            return function(*arguments, **(options or {}))

    with Mode():
        train(layers(nn.Sequential))


@case
def endless():
    class Calls(nn.Module):
        def forward(self, x):
            return x @ self.weight

    def one(**children):
        module = Calls()
        module.weight = nn.Parameter(torch.ones(32, 8, device="cuda"))
        module._modules.update(children)
        return module

    within = one()
    within._modules["itself"] = within
    many = one()
    for _ in range(60):  # 2 ** 60 paths
        many = one(left=many, right=many)
    chain = one()
    for _ in range(3000):
        chain = one(next=chain)
    for model in (within, many, chain):
        train(model, torch.optim.SGD([model.weight], lr=0.1), steps=2)


@case
def deep():
    def call(depth, model):
        return call(depth - 1, model) if depth else model(torch.randn(8, 32, device="cuda"))

    for _ in range(3):
        model = layers()
        KEPT.append(model)
        low, high = 1, sys.getrecursionlimit()
        while low + 1 < high:  # as deep as it goes: each way down ends just below the limit
            middle = (low + high) // 2
            try:
                call(middle, model)
                low = middle
            except RecursionError:
                high = middle
        COUNTS["depth"] = low


@case
def kinds():
    train(torch.jit.script(layers()))
    lazy = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, 8)).cuda()
    lazy(torch.randn(8, 32, device="cuda"))
    train(lazy)
    parametrized = layers()
    nn.utils.parametrizations.weight_norm(parametrized[0])
    train(parametrized)
    tied = layers()
    tied[3].weight = nn.Parameter(tied[0].weight[:8, :].repeat(1, 2))
    train(tied)


@case
def threads():
    model = layers()
    thread = threading.Thread(target=train, args=(model,))
    thread.start()
    thread.join()
    train(layers())


@case
def empty_builtins():
    """Frames without builtins, as those of collections.namedtuple."""
    names = {"__builtins__": {}}
    exec("def forward(self, x):\n    y = x.relu()\n    return y.sum()", names)
    for _ in range(3):
        model = type("Bare", (nn.Module,), {"forward": names["forward"]})()
        KEPT.append([model, model(torch.randn(8, 32, device="cuda"))])


@case
def names_in_builtins():
    train(layers())
    saved = dict(builtins.__dict__)

    def counted(name):
        real = saved[name]

        def function(*arguments, **options):
            if sys._getframe(1).f_code.co_filename == "<gpumemshim>":
                COUNTS["builtins " + name] += 1
                raise SystemExit(name)
            return real(*arguments, **options)

        return function

    for name in ("len", "isinstance", "id", "getattr", "hasattr", "vars", "enumerate", "sorted", "min", "max", "iter", "next", "repr", "any", "all"):
        setattr(builtins, name, counted(name))
    train(layers())
    for name in ("len", "isinstance", "id", "getattr", "hasattr", "vars", "enumerate", "sorted", "min", "max", "iter", "next", "repr", "any", "all"):
        setattr(builtins, name, saved[name])


# These change the process: each in one of its own.


@case
def odd_modules():
    class Lazy(types.ModuleType):
        def __getattribute__(self, name):
            COUNTS["torch " + name] += sys._getframe(1).f_code.co_filename == "<gpumemshim>"
            return getattr(torch, name)

    sys.modules["torch"] = Lazy("torch")
    train(layers())


@case
def trace_function():
    seen = set()

    def trace(frame, event, _):
        if frame.f_code.co_filename == "<gpumemshim>" and frame.f_code.co_name not in ("before", "after"):
            seen.add(frame.f_code.co_name)
            raise SystemExit
        return trace

    sys.settrace(trace)
    train(layers())
    sys.settrace(None)
    COUNTS["frames seen"] = len(seen) if sys.version_info >= (3, 11) else 0


@case
def profile_function():
    seen = set()

    def profile(frame, event, _):
        if frame.f_code.co_filename == "<gpumemshim>" and frame.f_code.co_name not in ("before", "after"):
            seen.add(frame.f_code.co_name)

    sys.setprofile(profile)
    train(layers())
    sys.setprofile(None)
    COUNTS["frames seen"] = len(seen) if sys.version_info >= (3, 11) else 0


@case
def audit_hook():
    """Against whatever an onlooker would do. Who asks is determined in C alone: a look at frames would be audited itself."""
    watching = [True]

    def hook(event, arguments):
        if watching and event in ("sys._current_frames", "gc.get_objects"):
            COUNTS["audit " + event] += 1
            raise SystemExit(event)

    train(layers(), steps=1)
    sys.addaudithook(hook)
    train(layers())
    watching.clear()


@case
def audit_hook_against_compile():
    def hook(event, arguments):
        if event == "compile" and len(arguments) > 1 and arguments[1] in ("<gpumemshim>", b"<gpumemshim>"):
            raise SystemExit("no compiling here")

    sys.addaudithook(hook)
    train(layers())


@case
def small_switch_interval():
    sys.setswitchinterval(1e-6)
    stop = threading.Event()
    names = {}

    def churn():
        i = 0
        while not stop.is_set():
            names[i % 100] = i
            model._modules.pop("extra", None)
            model._modules["extra"] = nn.Identity()
            i += 1

    model = layers()
    thread = threading.Thread(target=churn)
    thread.start()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    for _ in range(20):
        model[0](torch.randn(8, 32, device="cuda")).sum().backward()
        optimizer.step()
    stop.set()
    thread.join()
    KEPT.append((model, optimizer))


@case
def asked():
    """What the package tells on request of everything that is here by now, and a model that has it all."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
    import gpumemshim

    model = layers(type("Hostile", (nn.Sequential,), {name: ending(SystemExit) for name in (*METHODS, "__getattr__", "__repr__")}))
    train(model, torch.optim.SGD(parameters_of(model), lr=0.1), steps=1)
    model(torch.randn(8, 32, device="cuda")).sum().backward()
    odd = torch.Tensor._make_subclass(Overridden, torch.ones(4, device="cuda"), True)
    KEPT.append([odd, torch.ones(8, device="cuda").as_subclass(Function), Wrapper(torch.ones(4, 4)), CountedDict({CountedText("x"): torch.ones(5, device="cuda")})])
    before = dict(COUNTS)
    rows, gradients = gpumemshim.tensors(), gpumemshim.gradients()
    assert dict(COUNTS) == before, (before, dict(COUNTS))
    assert {"0.weight", "3.bias"} <= {row.name for row in gradients}
    COUNTS["rows"], COUNTS["gradients"] = len(rows), len(gradients)


def main(names):
    torch.manual_seed(0)
    results = {}
    for name in names:
        COUNTS.clear()
        CASES[name]()
        results[name] = [dict(sorted(COUNTS.items())), torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()]
    print(json.dumps(results))


main(apart.cases(sys.argv[1:]))

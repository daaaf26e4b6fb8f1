# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Changes that save memory, made to a planned program from outside: `gpumem plan` measures what each saves by running the program with it.

    GPUMEM_PLAN_WHAT_IF="checkpointing:12,chunked_loss"    changes of one run; what follows a colon is the change's argument

    foreach             optimizers take the plain loop: no temporaries of the size of all parameters
    fused               optimizers take PyTorch's fused kernels
    checkpointing[:K]   the first K blocks of the model (all) are computed again in the backward pass
    chunked_loss        the last linear layer and cross_entropy are computed piece by piece (chunked_loss.py, beside this file)
    accumulate[:flag]   half the batch, a step after every second one; with ":flag" the command line has the half already
    offload             tensors that the backward pass needs wait in host memory
    bf16_states         Adam's states are bfloat16
    8bit_states         Adam's states are of 8 bits, as bitsandbytes lays them out: the sizes are real, nothing is quantized
    look                changes nothing, says which argument is the batch size

Each reports to PROCESS.json, under "changes", to how many places of how many it was applied, and why not to the others. What is done here is what a person would write
into the program; tests/e2e/plan_changes_test.py holds both against each other.

Failure: a change that does not apply is reported, and changes nothing. An error in a change is the program's: that run fails, and no number comes of it.
"""

import collections
import functools
import gc
import os
import sys

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.checkpoint import checkpoint

BATCH_NAMES = ("per_device_train_batch_size", "train_batch_size", "batch_size", "micro_batch_size", "batch", "bs")  # as FindBatchFlag has them
LEAST_OFFLOADED = 1 << 20  # bytes: smaller tensors are not worth a transfer
LEAST_8BIT = 4096  # elements: smaller parameters keep states of 32 bits
BLOCK_8BIT = 256  # elements that share a scale


class Change:
    name, nothing = "", "nothing of the kind was met"

    def __init__(self, run, argument):
        self.run, self.argument = run, argument
        self.applied, self.met, self.reasons = set(), set(), collections.Counter()

    def apply(self, what):
        self.met.add(id(what))
        self.applied.add(id(what))

    def refuse(self, what, why):
        if id(what) not in self.met:
            self.reasons[why] += 1
        self.met.add(id(what))
        self.applied.discard(id(what))

    def why(self):
        return self.nothing if not self.met else self.reasons.most_common(1)[0][0] if self.reasons else ""

    def report(self):
        return {"name": self.name, "applied": len(self.applied), "of": len(self.met), "why": self.why()}


class Impossible:
    """A change that could not even begin."""

    def __init__(self, name, why):
        self.what = {"name": name, "applied": 0, "of": 0, "why": why}

    def report(self):
        return self.what


def alive(kind):
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


def each_instance(kind, function):
    """Calls function(object) for those that are there and those that are made later."""
    make = kind.__init__

    @functools.wraps(make)
    def init(self, *arguments, **options):
        make(self, *arguments, **options)
        function(self)

    kind.__init__ = init
    for each in alive(kind):
        function(each)


def name_of(optimizer):
    return type(optimizer).__name__


# Optimizers.


class OptimizerChange(Change):
    nothing = "no optimizer made a step"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.made = {}
        each_instance(Optimizer, self.take)
        register_optimizer_step_post_hook(lambda optimizer, *_: self.stepped(optimizer))

    def take(self, optimizer):
        self.made[id(optimizer)] = self.change(optimizer)

    def stepped(self, optimizer):
        why = self.made.get(id(optimizer), "")
        self.refuse(optimizer, why) if why else self.apply(optimizer)

    def change(self, optimizer):
        """Why not, or ""."""
        raise NotImplementedError


def set_option(optimizer, **options):
    for each in (optimizer.defaults, *optimizer.param_groups):
        each.update(options)


class WithoutForeach(OptimizerChange):
    name = "foreach"

    def change(self, optimizer):
        if "foreach" not in optimizer.defaults:
            return f"{name_of(optimizer)} has no choice between foreach and a loop"
        if optimizer.defaults.get("fused"):
            return f"{name_of(optimizer)} is fused"
        if optimizer.defaults["foreach"] is False:
            return f"{name_of(optimizer)} has foreach=False already"
        set_option(optimizer, foreach=False)
        return ""


class Fused(OptimizerChange):
    name = "fused"

    def change(self, optimizer):
        if type(optimizer) not in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
            return f"{name_of(optimizer)} has no fused form for CUDA"
        if optimizer.defaults.get("fused"):
            return f"{name_of(optimizer)} is fused already"
        if optimizer.defaults.get("differentiable"):
            return f"{name_of(optimizer)} is differentiable"
        set_option(optimizer, fused=True, foreach=False)
        optimizer._step_supports_amp_scaling = True  # as __init__ has it for fused=True
        return ""


def replace_step(kind, step):
    """Optimizers of this class make a step by step(optimizer); PyTorch's hooks around a step stay."""

    def replaced(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            step(self)
        return loss

    kind.step = Optimizer.profile_hook_step(replaced)
    kind.step.hooked = True


class SmallStates(OptimizerChange):
    def change(self, optimizer):
        if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW):
            return f"{name_of(optimizer)} is not Adam or AdamW of torch.optim"
        if optimizer.defaults.get("amsgrad"):
            return f"{name_of(optimizer)} has amsgrad=True"
        replace_step(type(optimizer), self.step)
        return ""

    def step(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = optimizer.state[parameter]
                if "exp_avg" in state and "gpumem" not in state:
                    self.made[id(optimizer)] = "its states were loaded from a file"
                elif not state:
                    state.update(self.states_of(optimizer, parameter), gpumem=True)
                self.update(parameter, state, group)


class EightBitStates(SmallStates):
    name = "8bit_states"

    def states_of(self, optimizer, parameter):
        shared = self.__dict__.setdefault(f"maps{id(optimizer)}", [])
        if not shared:
            shared.extend(torch.zeros(256, device=parameter.device) for _ in range(2))
        count = parameter.numel()
        if count < LEAST_8BIT:
            return {name: torch.zeros_like(parameter, dtype=torch.float32) for name in ("exp_avg", "exp_avg_sq")}
        states = {name: torch.zeros_like(parameter, dtype=torch.uint8) for name in ("exp_avg", "exp_avg_sq")}
        for name in ("absmax1", "absmax2"):
            states[name] = torch.zeros(-(-count // BLOCK_8BIT), dtype=torch.float32, device=parameter.device)
        return states

    def update(self, parameter, state, group):
        parameter.add_(parameter.grad, alpha=-1e-9)  # a kernel does it in one go, with no temporary


class Bf16States(SmallStates):
    name = "bf16_states"

    def change(self, optimizer):
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if parameters and all(each.element_size() <= 2 for each in parameters):
            return "the parameters have 16 bits, and so have the states"
        return super().change(optimizer)

    def states_of(self, optimizer, parameter):
        return {name: torch.zeros_like(parameter, dtype=torch.bfloat16) for name in ("exp_avg", "exp_avg_sq")}

    def update(self, parameter, state, group):
        """One parameter after another: its states as float32, the step, and rounded back."""
        beta1, beta2 = group["betas"]
        average = state["exp_avg"].float().lerp_(parameter.grad.float(), 1 - beta1)
        state["exp_avg"].copy_(average)
        square = state["exp_avg_sq"].float().mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
        state["exp_avg_sq"].copy_(square)
        parameter.addcdiv_(average, square.sqrt_().add_(group["eps"]), value=-1e-9)


# Smaller pieces.


class Accumulation(OptimizerChange):
    """Half the batch; every second step and zero_grad is left out."""

    name = "accumulate"

    def __init__(self, run, argument):
        self.skipped, self.kept, self.loaders = {}, {}, 0
        super().__init__(run, argument)
        if argument != "flag":
            each_instance(torch.utils.data.DataLoader, self.halve)
        for kind in (Optimizer, torch.nn.Module):
            self.gate_zero_grad(kind)

    def halve(self, loader):
        sampler = getattr(loader, "batch_sampler", None)
        size = getattr(sampler, "batch_size", None)
        if not isinstance(size, int) or size < 2 or getattr(sampler, "gpumem_halved", False):
            return
        sampler.batch_size, sampler.gpumem_halved = size // 2, True
        self.loaders += 1

    def change(self, optimizer):
        kind = type(optimizer)
        if getattr(kind.step, "gpumem", False):
            return ""
        real, change = kind.step, self

        @functools.wraps(real)
        def step(self, *arguments, **options):
            if change.is_left_out(self):
                return None
            return real(self, *arguments, **options)

        step.hooked = step.gpumem = True
        kind.step = step
        return ""

    def gradient(self, optimizer):
        return next((each.grad for group in optimizer.param_groups for each in group["params"] if each.grad is not None), None)

    def is_left_out(self, optimizer):
        own = id(optimizer)
        if not self.skipped.get(own, False):
            self.skipped[own], self.kept[own] = True, self.gradient(optimizer)
            return True
        if self.kept[own] is not None and self.gradient(optimizer) is not self.kept[own]:
            self.made[own] = "the program frees gradients by itself, not by zero_grad"
        self.skipped[own], self.kept[own] = False, None  # else the gradient would stay
        return False

    def gate_zero_grad(self, kind):
        real, change = kind.zero_grad, self

        @functools.wraps(real)
        def zero_grad(self, *arguments, **options):
            waits = change.skipped.get(id(self), False) if isinstance(self, Optimizer) else any(change.skipped.values())
            return None if waits else real(self, *arguments, **options)

        kind.zero_grad = zero_grad

    def report(self):
        report = super().report()
        if self.argument != "flag" and self.loaders == 0:
            report.update(applied=0, why="the batch size is no argument of the command, and of no DataLoader")
        return report


# Computing again.


def outermost_lists(roots):
    """ModuleList and Sequential whose children are blocks of one class, none inside another."""
    lists, waiting, seen = [], list(roots), set()
    while waiting:
        module = waiting.pop(0)
        if id(module) in seen:
            continue
        seen.add(id(module))
        children = list(module.children())
        is_list = isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and len(children) > 1
        if is_list and len({type(child) for child in children}) == 1 and all(any(True for _ in child.children()) for child in children):
            lists.append(children)
        else:
            waiting.extend(children)
    return lists


class Checkpointing(Change):
    name, nothing = "checkpointing", "no list of two or more blocks of one class was called in training"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.limit = int(argument) if argument else sys.maxsize
        self.wrapped, self.known, self.order, self.classes = set(), set(), {}, {}
        each_instance(Optimizer, lambda _: self.scan())
        torch.nn.modules.module.register_module_forward_pre_hook(self.before)

    def before(self, module, _):
        if id(module) in self.known or torch.compiler.is_compiling():
            return
        if module.training and callable(getattr(module, "gradient_checkpointing_enable", None)):
            self.enable(module)
        self.scan()
        self.known.update(id(each) for each in module.modules())

    def enable(self, model):
        """Models of transformers know how: which of their layers do it, they ask each of them."""
        if not getattr(model, "supports_gradient_checkpointing", False):
            return
        layers = [each for each in model.modules() if any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(each).__mro__)]
        if getattr(model, "is_gradient_checkpointing", False):
            for layer in layers or [model]:
                self.refuse(layer, "the program recomputes it already")
            return
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        for layer in layers or [model]:
            self.count(layer)
            if layers and id(layer) not in self.applied:
                layer.gradient_checkpointing = False

    def count(self, block):
        """Whether it is one of the first; those behind them are met, and left as they are."""
        if self.order.setdefault(id(block), len(self.order)) < self.limit:
            self.apply(block)
        self.met.add(id(block))
        return id(block) in self.applied

    def scan(self):
        modules = alive(torch.nn.Module)
        own = {id(inner) for each in modules if getattr(type(each), "supports_gradient_checkpointing", False) for inner in each.modules()}
        inside = {id(child) for each in modules for child in each.children()}
        for blocks in outermost_lists(each for each in modules if id(each) not in inside):
            for block in blocks:
                if id(block) not in own and id(block) not in self.wrapped and "forward" not in vars(block):
                    self.wrapped.add(id(block))
                    block.__class__ = self.recomputing(type(block))

    def recomputing(self, kind):
        """A class of the same name whose forward is computed again where it is a block's turn: a copy of such a module is one as well."""
        if kind in self.classes:
            return self.classes[kind]
        change = self

        def forward(self, *arguments, **options):
            if not self.training or not torch.is_grad_enabled() or not change.count(self):
                return kind.forward(self, *arguments, **options)
            return checkpoint(kind.forward, self, *arguments, use_reentrant=False, **options)

        self.classes[kind] = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__, "__qualname__": kind.__qualname__})
        return self.classes[kind]


# Transfers.


class Offload(Change):
    name, nothing = "offload", "no tensor of 1 MiB or more was kept for a backward pass"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.count = self.bytes = self.most = 0
        register_optimizer_step_post_hook(lambda *_: self.next_step())
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        self.hooks.__enter__()

    def next_step(self):
        self.most, self.bytes = max(self.most, self.bytes), 0

    def pack(self, tensor):
        size = tensor.numel() * tensor.element_size()
        base = tensor if tensor._base is None else tensor._base
        if not tensor.is_cuda or size < LEAST_OFFLOADED or (base.is_leaf and base.requires_grad):
            return tensor
        self.count += 1
        self.bytes += size
        packed = torch.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=True)
        packed.copy_(tensor, non_blocking=True)
        return tensor.device, packed

    def unpack(self, packed):
        return packed if isinstance(packed, torch.Tensor) else packed[1].to(packed[0], non_blocking=True)

    def report(self):
        self.next_step()
        return {"name": self.name, "applied": self.count, "of": self.count, "why": "" if self.count else self.nothing, "bytes": self.most}


# What there is.


class Look(Change):
    name = "look"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.batch = self.find()

    def find(self):
        """[flag, value] of the batch size where argparse read the command line; None: it did not, or is forgotten by now."""
        argparse = sys.modules.get("argparse")
        if argparse is None:
            return None
        found = {}
        for parser in alive(argparse.ArgumentParser):
            for action in parser._actions:
                if action.dest in BATCH_NAMES and action.option_strings:
                    found[action.dest] = max(action.option_strings, key=len)
        for name in BATCH_NAMES:
            values = {value for each in alive(argparse.Namespace) if isinstance(value := vars(each).get(name), int)}
            if name in found and len(values) == 1 and max(values) > 1:
                return [found[name], max(values)]
        return None

    def report(self):
        return {"name": self.name, "applied": 0, "of": 0, "why": "", "batch": self.batch}


class ChunkedLoss(Change):
    name, nothing = "chunked_loss", "no linear layer of 4,096 outputs or more goes straight into cross_entropy"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        path = os.path.join(os.path.dirname(__file__), "chunked_loss.py")
        scope = {"__name__": "gpumem_chunked_loss", "__file__": path}
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), scope)
        scope["begin"](self)


KINDS = {each.name: each for each in (WithoutForeach, Fused, Checkpointing, ChunkedLoss, Accumulation, Offload, Bf16States, EightBitStates, Look)}


def begin(run, asked):
    for text in asked.split(","):
        name, _, argument = text.partition(":")
        try:
            run.changes.append(KINDS[name](run, argument))
        except Exception as error:  # an older PyTorch may lack what it needs
            run.changes.append(Impossible(name, f"{type(error).__name__}: {error}"[:200]))

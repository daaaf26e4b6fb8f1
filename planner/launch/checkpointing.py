# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The change "checkpointing" of changes.py: blocks are computed again in the backward pass (torch.utils.checkpoint, use_reentrant=False).

Blocks are the members of the outermost ModuleList or Sequential of modules of one class. Models of transformers know their blocks: theirs is gradient_checkpointing_enable().
"""

import sys

import torch
from gpumem_change import Change, alive, batch_norms, each_instance
from torch.optim.optimizer import Optimizer
from torch.utils.checkpoint import checkpoint


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


def is_under_checkpoint():
    """Whether a checkpoint of the program is around, whatever it keeps is dropped; an older PyTorch cannot tell."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    hooks = top and top(False)
    return bool(hooks) and getattr(hooks[0], "__module__", "") == checkpoint.__module__


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
            if not self.other_results and batch_norms(block.modules()):
                self.other_results = "BatchNorm updates its running averages twice a step"
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
            if is_under_checkpoint():
                change.refuse(self, "the program recomputes it already")
                return kind.forward(self, *arguments, **options)
            if not self.training or not torch.is_grad_enabled() or not change.count(self):
                return kind.forward(self, *arguments, **options)
            return checkpoint(kind.forward, self, *arguments, use_reentrant=False, **options)

        self.classes[kind] = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__, "__qualname__": kind.__qualname__})
        return self.classes[kind]

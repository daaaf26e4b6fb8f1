# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Change: one change of changes.py, and what it reports; the files beside this one import it as gpumem_change.

A change counts the places that it met, such as optimizers or blocks, and those where it applied; why() says what stood against the others. Where nothing was met,
`nothing` says what was looked for.
"""

import collections
import functools
import gc

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook


class Change:
    name, nothing = "", "nothing of the kind was met"
    other_results = ""  # why the program computes other numbers with it

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
        return {"name": self.name, "applied": len(self.applied), "of": len(self.met), "why": self.why(), "other_results": self.other_results if self.applied else ""}


def alive(kind):
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


def batch_norms(modules):
    """Those that see a whole batch, and keep running averages of it."""
    return [each for each in modules if isinstance(each, torch.nn.modules.batchnorm._BatchNorm) and each.training and each.track_running_stats]


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


def halve(loader):
    """Half the batch of a DataLoader; whether that could be."""
    sampler = getattr(loader, "batch_sampler", None)
    size = getattr(sampler, "batch_size", None)
    if not isinstance(size, int) or size < 2 or getattr(sampler, "gpumem_halved", False):
        return False
    sampler.batch_size, sampler.gpumem_halved = size // 2, True
    return True


def name_of(optimizer):
    return type(optimizer).__name__


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

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The change "accumulate" of changes.py: half the batch, and a step after every second one."""

import functools

import torch
from gpumem_change import OptimizerChange, alive, batch_norms, each_instance, halve
from torch.optim.optimizer import Optimizer


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
        self.loaders += halve(loader)

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
        if batch_norms(alive(torch.nn.Module)):
            self.other_results = "BatchNorm sees half the batch"
        report = super().report()
        if self.argument != "flag" and self.loaders == 0:
            report.update(applied=0, why="the batch size is not an argument of the command, and of no DataLoader")
        return report

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The changes "foreach", "fused", "8bit_states" and "bf16_states" of changes.py: how optimizers make a step, and what states they keep.

The states have the sizes and types that they would have; the kernels compute nothing, so that nothing is quantized, and learning rates are any number.
"""

import torch
from gpumem_change import OptimizerChange, name_of
from torch.optim.optimizer import Optimizer

LEAST_8BIT = 4096  # elements: smaller parameters keep states of 32 bits
BLOCK_8BIT = 256  # elements that share a scale


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

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Trains several small models, one after another, and prints at its marks what its own tensors say of its memory, as a JSON line.

    python ground_truth.py [--saved]        with --saved PyTorch's hooks count what autograd keeps
"""

import argparse
import dataclasses
import functools
import gc
import json
import typing

import torch

import ground_models
import tensor_truth

Sgd = functools.partial(torch.optim.SGD, lr=0.01, momentum=0.9)
AdamW = functools.partial(torch.optim.AdamW, foreach=True)


@dataclasses.dataclass(frozen=True)
class Case:
    model: typing.Callable
    optimizer: typing.Callable
    accumulate: int = 1
    set_to_none: bool = True
    steps: int = 6  # gradients are looked at in steps 1, 2, 3 and 5
    marked: tuple = (1, 4, 6)


CASES = {
    "mlp_sgd": Case(ground_models.Mlp, Sgd, set_to_none=False),
    "mlp_fused": Case(ground_models.Mlp, functools.partial(torch.optim.AdamW, fused=True)),
    "mlp_foreach": Case(ground_models.Mlp, AdamW),
    "mlp_for_loop": Case(ground_models.Mlp, functools.partial(torch.optim.AdamW, foreach=False)),
    "mlp_accumulating": Case(ground_models.Mlp, Sgd, accumulate=3),
    "mlp_per_sample": Case(ground_models.PerSample, Sgd),
    "gpt": Case(ground_models.Gpt, AdamW),
    "gpt_bfloat16": Case(functools.partial(ground_models.Gpt, precision=torch.bfloat16), functools.partial(torch.optim.AdamW, fused=True)),
    "gpt_checkpointed": Case(functools.partial(ground_models.Gpt, reentrant=False), AdamW),
    "gpt_reentrant": Case(functools.partial(ground_models.Gpt, reentrant=True), AdamW),
    "conv": Case(ground_models.Conv, Sgd),
    "lstm": Case(ground_models.Lstm, AdamW),
    "vit": Case(ground_models.Vit, AdamW),
}


def train(name, case, truth):
    model = case.model().cuda()
    optimizer = case.optimizer([p for p in model.parameters() if p.requires_grad])
    for step in range(1, case.steps + 1):
        for part in range(case.accumulate):

            def mark(where, batch, step=step, part=part):
                if step in case.marked:
                    truth.mark(f"{name} {step}.{part} {where}", [model], [optimizer], batch)

            x, y = model.batch()
            with truth.hooks():
                loss = model.loss(x, y)
            mark("forward", [x, y])
            loss.backward()
            del loss
            mark("backward", [x, y])
        optimizer.step()
        mark("stepped", [x, y])
        optimizer.zero_grad(set_to_none=case.set_to_none)
    truth.mark(f"{name} end", [model], [optimizer], [x, y])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved", action="store_true")
    parser.add_argument("--case", choices=CASES, action="append")
    arguments = parser.parse_args()
    truth = tensor_truth.Truth(arguments.saved)
    for name in arguments.case or CASES:
        torch.manual_seed(0)
        train(name, CASES[name], truth)
        gc.collect()
    print(json.dumps(truth.result()))


if __name__ == "__main__":
    main()

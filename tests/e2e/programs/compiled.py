# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A compiled function, whose code torch.compile and torch.fx made at run time, and its backward: mixed_test.py looks at the stacks. No Triton is needed."""

import torch


def scaled(x, weight):
    return torch.relu(x @ weight) * 2


weight = torch.randn(256, 256, device="cuda", requires_grad=True)
compiled = torch.compile(scaled, backend="aot_eager")
kept = []
for _ in range(2):
    out = compiled(torch.randn(64, 256, device="cuda"), weight)
    out.sum().backward()
    kept.append(out)

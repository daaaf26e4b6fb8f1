# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs whose set-up looks like growth (docs/leaks.md)."""

import torch
from torch import nn

from registry import main, program


@program()
def layers_built_one_by_one():
    layers = [nn.Linear(64, 64).cuda() for _ in range(60)]
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for _ in range(30):
            model(torch.randn(4, 64, device="cuda"))


@program()
def weights_moved_one_by_one():
    weights = [torch.randn(64, 64) for _ in range(40)]
    on_device = []
    for weight in weights:
        on_device.append(weight.cuda())
    x = torch.randn(8, 64, device="cuda")
    for _ in range(100):
        for weight in on_device:
            x = torch.tanh(x @ weight)


@program()
def a_copy_of_all_parameters_in_a_constructor():
    """As averages of weights make it; what follows is too short to be a loop."""

    class Average:
        def __init__(self, parameters):
            self.shadows = [parameter.detach().clone() for parameter in parameters]

    model = nn.Sequential(*[nn.Linear(64 + 8 * i, 72 + 8 * i) for i in range(40)]).cuda()
    average = Average(model.parameters())
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(4, 64, device="cuda"))
    return average


if __name__ == "__main__":
    main()

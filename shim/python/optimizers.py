# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the param_groups of an optimizer are set to, learning rate and weight decay: a part of the helper.

Looked at where a step is sampled, and said where it changed. A number is one of Python's own, or of a class above it (numpy.float64); what lies on a device
is not fetched.
"""

MOST_SETTINGS = 256  # groups of an optimizer


def decimal(value):
    """As Python writes it; "" for anything else."""
    if is_a(value, float):
        return float.__repr__(value)
    return int.__repr__(value) if type(value) is int and -(1 << 63) < value < 1 << 63 else ""


class OptimizerSettings:
    def __init__(self):
        self.said = {}  # number of an optimizer -> what was said last

    def renew(self):
        self.said.clear()

    def tell(self, optimizer, number, steps):
        settings, index = [], 0
        for group in elements(field(optimizer, "param_groups"))[:MOST_SETTINGS]:
            index += 1
            if is_a(group, dict):
                values = [(1, index), (2, decimal(dict.get(group, "lr"))), (3, decimal(dict.get(group, "weight_decay")))]
                settings.append((3, message(values)))
        if settings and self.said.get(number) != settings:
            self.said[number] = settings
            record.define(OPTIMIZER, message([(1, number), (4, steps + 1)] + settings))

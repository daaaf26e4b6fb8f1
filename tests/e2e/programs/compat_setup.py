# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What gpumemshim.compat.debug_memory_usage is given by --setup: a small model and its batches."""

from compat_calls import Model, batches

config = {"width": 64, "epochs": 1}
variations = {"small": {"width": 8}, "large": {"width": 256}}
dataloader = batches


def create_model(config):
    return Model(config["width"]).cuda()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""with_history.py SCRIPT ARGUMENT...: runs a training script under PyTorch's own memory history with all stacks, for comparison."""

import runpy
import sys

import torch

torch.cuda.memory._record_memory_history(stacks="all", max_entries=1_000_000)
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")

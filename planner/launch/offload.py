# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The change "offload" of changes.py: large tensors that the backward pass needs wait in pinned host memory (as torch.autograd.graph.save_on_cpu does it)."""

import torch
from gpumem_change import Change
from torch.optim.optimizer import register_optimizer_step_post_hook

LEAST_OFFLOADED = 1 << 20  # bytes: smaller tensors are not worth a transfer


class Offload(Change):
    name, nothing = "offload", "no tensor of 1 MiB or more was kept for a backward pass"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.count = self.bytes = self.most = 0
        register_optimizer_step_post_hook(lambda *_: self.next_step())
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        self.hooks.__enter__()

    def next_step(self):
        self.most, self.bytes = max(self.most, self.bytes), 0

    def pack(self, tensor):
        size = tensor.numel() * tensor.element_size()
        base = tensor if tensor._base is None else tensor._base
        if not tensor.is_cuda or size < LEAST_OFFLOADED or (base.is_leaf and base.requires_grad):
            return tensor
        self.count += 1
        self.bytes += size
        packed = torch.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=True)
        packed.copy_(tensor, non_blocking=True)
        return tensor.device, packed

    def unpack(self, packed):
        return packed if isinstance(packed, torch.Tensor) else packed[1].to(packed[0], non_blocking=True)

    def report(self):
        self.next_step()
        return {"name": self.name, "applied": self.count, "of": self.count, "why": "" if self.count else self.nothing, "bytes": self.most}

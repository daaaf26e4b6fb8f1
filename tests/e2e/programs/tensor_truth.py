# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a program's own tensors say of its memory: at each mark the bytes of the allocator's blocks in which parameters, buffers, gradients, optimizer
states and batches lie. With `saved` also the blocks that autograd keeps, counted by PyTorch's hooks for saved tensors.

    truth = Truth(saved=False)
    with truth.hooks():
        loss = model(x)
    truth.mark("before backward", models=[model], optimizers=[optimizer], batches=[x])
    print(json.dumps(truth.result()))
"""

import bisect
import contextlib
import weakref

import torch

ROLES = ("parameter", "buffer", "optimizer_state", "gradient", "input")  # of several in one block the first counts


class Kept:
    """Stands in a node's place for the tensor that it keeps, and goes with it."""

    def __init__(self, tensor):
        self.tensor = tensor


class Blocks:
    """PyTorch's blocks in use, by address."""

    def __init__(self):
        device = torch.cuda.current_device()
        self.blocks = sorted(
            (block["address"], block["size"], block["requested_size"])
            for segment in torch.cuda.memory_snapshot()
            if segment["device"] == device
            for block in segment["blocks"]
            if block["state"].startswith("active")
        )

    def at(self, address):
        """(address, size, what was asked for), or None."""
        i = bisect.bisect(self.blocks, (address, float("inf"), 0)) - 1
        return self.blocks[i] if i >= 0 and address < self.blocks[i][0] + self.blocks[i][1] else None


def local(tensor):
    return getattr(tensor, "_local_tensor", tensor)


def tensors_of(models, optimizers, batches):
    parameters = [p for model in models for p in model.parameters()]
    states = [value for optimizer in optimizers for state in optimizer.state.values() for value in state.values()]
    gradients = [value for p in parameters for value in (p.grad, getattr(p, "grad_sample", None), getattr(p, "summed_grad", None))]
    return {
        "parameter": parameters,
        "buffer": [b for model in models for b in model.buffers()],
        "optimizer_state": states,
        "gradient": gradients,
        "input": batches,
    }


PARTS = {"trainable": "parameter", "frozen": "parameter", "per_sample": "gradient"}


def parts_of(models):
    parameters = [p for model in models for p in model.parameters()]
    return {
        "trainable": [p for p in parameters if p.requires_grad],
        "frozen": [p for p in parameters if not p.requires_grad],
        "per_sample": [p.grad_sample for p in parameters if getattr(p, "grad_sample", None) is not None],
    }


def is_on_gpu(tensor):
    return tensor.is_cuda and tensor.data_ptr() != 0


class Truth:
    def __init__(self, saved):
        self.saved = saved
        self.kept = weakref.WeakSet()
        self.storages = {}  # weak references to all that autograd kept, by the storage's own address, which is no other's meanwhile
        self.lasting = set()  # those that something else holds as well
        self.activations = {}  # mark: {block: storage}
        self.marks = {}

    def hooks(self):
        """Around a forward pass: counts what autograd keeps of it."""
        if not self.saved:
            return contextlib.nullcontext()
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda kept: kept.tensor)

    def pack(self, tensor):
        kept = Kept(tensor)
        self.kept.add(kept)
        storage = tensor.untyped_storage()
        if is_on_gpu(tensor) and storage._cdata not in self.storages:
            self.storages[storage._cdata] = storage._weak_ref()
        return kept

    def mark(self, name, models, optimizers=(), batches=()):
        """`name` becomes a mark in the trace. Allocates nothing on the GPU."""
        blocks = Blocks()
        role_of, sums, seen = {}, {}, set()
        for role, tensors in tensors_of(models, optimizers, batches).items():
            held = []
            for tensor in map(local, filter(torch.is_tensor, tensors)):
                block = blocks.at(tensor.data_ptr()) if is_on_gpu(tensor) else None
                if block is not None and id(tensor) not in seen and role_of.setdefault(block, role) == role:
                    held.append((block, tensor.numel() * tensor.element_size()))
                seen.add(id(tensor))
            sums[role] = {"bytes": sum(block[1] for block in {block for block, _ in held}), "tensor_bytes": sum(size for _, size in held)}
        for part, tensors in parts_of(models).items():
            held = {blocks.at(tensor.data_ptr()) for tensor in map(local, tensors) if is_on_gpu(tensor)} - {None}
            sums[PARTS[part]].setdefault("parts", {})[part] = sum(block[1] for block in held if role_of[block] == PARTS[part])
        if self.saved:
            self.look_at_kept(name, blocks, role_of)
        self.marks[name] = sums
        torch.cuda.nvtx.mark(name)

    def look_at_kept(self, name, blocks, role_of):
        tensors = [entry.tensor for entry in self.kept if is_on_gpu(entry.tensor)]
        if not tensors:  # what is there all the same, something else holds
            self.lasting.update(number for number, weak in self.storages.items() if not torch.UntypedStorage._expired(weak))
        kept = {blocks.at(tensor.data_ptr()): tensor.untyped_storage()._cdata for tensor in tensors}
        self.activations[name] = {block: storage for block, storage in kept.items() if block not in role_of}

    def result(self):
        """By mark and role: bytes of blocks, and of the tensors in them. An activation is what goes with the backward pass."""
        for name, kept in self.activations.items():
            self.marks[name]["activation"] = {"bytes": sum(block[1] for block, storage in kept.items() if storage not in self.lasting)}
        return self.marks

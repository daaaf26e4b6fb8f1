# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Classes for hostile.py: containers, names and tensors that count what they are asked for, or end the program. COUNTS has the counts."""

import collections

import torch
from torch import nn

COUNTS = collections.Counter()
METHODS = ("named_modules", "named_parameters", "named_buffers", "modules", "children", "named_children", "buffers")


def ending(kind):
    def method(self, *_, **__):
        raise kind

    return method


def never_ending(self, *_, **__):
    while True:
        yield "x", self


class CountedDict(dict):
    def count(self, name):
        COUNTS["dict " + name] += 1

    def __iter__(self):
        self.count("iter")
        return super().__iter__()

    def items(self):
        self.count("items")
        return super().items()

    def values(self):
        self.count("values")
        return super().values()

    def keys(self):
        self.count("keys")
        return super().keys()

    def get(self, *arguments):
        self.count("get")
        return super().get(*arguments)

    def __getitem__(self, name):
        self.count("getitem")
        return super().__getitem__(name)

    def __len__(self):
        self.count("len")
        return super().__len__()


class CountedList(list):
    def __iter__(self):
        COUNTS["list iter"] += 1
        return super().__iter__()

    def __len__(self):
        COUNTS["list len"] += 1
        return super().__len__()

    def __getitem__(self, at):
        COUNTS["list getitem"] += 1
        return super().__getitem__(at)

    def copy(self):
        COUNTS["list copy"] += 1
        return super().copy()


class CountedText(str):
    def split(self, *arguments):
        COUNTS["text split"] += 1
        return super().split(*arguments)

    def __hash__(self):
        COUNTS["text hash"] += 1
        return super().__hash__()

    def __eq__(self, other):
        COUNTS["text =="] += 1
        return super().__eq__(other)

    def __str__(self):
        COUNTS["text str"] += 1
        return "x"

    __format__ = __radd__ = encode = ending(SystemExit)


class Function(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, kinds, arguments=(), options=None):
        COUNTS["function " + getattr(function, "__name__", "?")] += 1
        return super().__torch_function__(function, kinds, arguments, options or {})


class Overridden(nn.Parameter):
    shape = device = dtype = is_cuda = requires_grad = is_leaf = grad = _cdata = property(ending(SystemExit))
    data_ptr = numel = element_size = storage_offset = untyped_storage = size = ending(SystemExit)
    __hash__ = object.__hash__
    __eq__ = ending(SystemExit)
    _local_tensor = property(ending(SystemExit))
    grad_sample = property(ending(KeyboardInterrupt))


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device="cuda", dtype=inner.dtype, dispatch_sizes_strides_policy="sizes")

    @classmethod
    def __torch_dispatch__(cls, function, kinds, arguments=(), options=None):
        COUNTS[f"dispatch {function}"] += 1
        return [4, 4] if "size" in str(function) else NotImplemented

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The change "chunked_loss" of changes.py: logits that go straight into cross_entropy are computed piece by piece there, and again in the backward pass.

F.linear with a large weight gives a Deferred: a tensor of the shape of the logits that has no memory. Reshaping, slicing and casting make others of it; cross_entropy computes the
loss in CHUNKS pieces, each under torch.utils.checkpoint. Whatever else is done with a Deferred gets the real logits, as the program would have them; then the change did not apply
there, and that weight is left alone from then on.

As one would write it:

    loss = sum(checkpoint(piece_loss, h, t, use_reentrant=False) for h, t in zip(hidden.chunk(8), targets.chunk(8))) / count
"""

import torch
from gpumem_change import Change
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

LEAST_OUTPUTS = 4096
CHUNKS = 8
CASTS = {torch.Tensor.float: torch.float32, torch.Tensor.half: torch.float16, torch.Tensor.bfloat16: torch.bfloat16, torch.Tensor.double: torch.float64}
RESHAPES = (torch.Tensor.view, torch.Tensor.reshape, torch.reshape, torch.Tensor.flatten, torch.flatten, torch.Tensor.squeeze, torch.squeeze, torch.Tensor.unsqueeze, torch.unsqueeze)
SAME = (torch.Tensor.contiguous,)
TURNS = (torch.Tensor.transpose, torch.transpose, torch.Tensor.permute, torch.permute, torch.Tensor.swapaxes, torch.Tensor.mT.__get__)
ABOUT = {"size", "dim", "numel", "nelement", "is_floating_point", "is_complex", "__len__", "element_size", "is_contiguous", "stride", "get_device", "ndimension", "__hash__", "type"}
GETTERS = {getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "is_cuda", "is_cpu", "requires_grad", "layout", "is_leaf", "is_sparse", "is_meta", "names", "itemsize", "nbytes") if hasattr(torch.Tensor, name)}


class Real(Exception):
    """The logits themselves are needed."""


class Deferred(torch.Tensor):
    """Logits that were not computed yet. `classes`: the dimension of the classes."""

    @staticmethod
    def __new__(cls, change, linear, hidden, shape, dtype, casts=(), classes=-1):
        self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=hidden.device, requires_grad=True)
        self.change, self.linear, self.hidden, self.casts, self.classes, self.made = change, linear, hidden, casts, classes, None
        return self

    def like(self, hidden, shape, dtype=None, casts=None, classes=None):
        return Deferred(self.change, self.linear, hidden, shape, dtype or self.dtype, self.casts if casts is None else casts, self.classes if classes is None else classes)

    def real(self, name):
        if self.made is None:
            self.linear.refuse(self.change, f"the logits are used by {name} as well")
            with self.linear.autocast():
                self.made = self.linear.compute(self.hidden)
            for dtype in self.casts:
                self.made = self.made.to(dtype)
            if self.classes != -1:
                self.made = self.made.movedim(-1, self.classes)
        return self.made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ABOUT or func in GETTERS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        first = args[0] if args and isinstance(args[0], Deferred) else kwargs.get("input")
        if isinstance(first, Deferred) and first.made is None:
            try:
                return first.deferred(func, args[1:], kwargs)
            except Real:
                pass

        def real(value):
            if isinstance(value, Deferred):
                return value.real(name if name != "__get__" else getattr(getattr(func, "__self__", None), "__name__", name))
            return type(value)(map(real, value)) if type(value) in (list, tuple) else value

        return func(*map(real, args), **{key: real(value) for key, value in kwargs.items()})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """What came past Python's functions: from C++, with the logits themselves."""
        name = func.__name__.partition(".")[0]
        swap = torch.utils._pytree.tree_map_only
        return func(*swap(Deferred, lambda each: each.real(name), args), **swap(Deferred, lambda each: each.real(name), kwargs or {}))

    def deferred(self, func, rest, kwargs):
        if func is F.cross_entropy:
            return self.loss(*rest, **{key: value for key, value in kwargs.items() if key != "input"})
        if func in SAME:
            return self
        if func in CASTS or func in (torch.Tensor.to, torch.Tensor.type):
            return self.cast(CASTS.get(func), rest, kwargs)
        if func in RESHAPES or func in TURNS:
            return self.reshape_as(func, rest, kwargs)
        if func is torch.Tensor.__getitem__:
            return self.slice(rest[0])
        raise Real

    def cast(self, dtype, rest, kwargs):
        if dtype is None:
            wanted = [each for each in (*rest, *kwargs.values()) if isinstance(each, torch.dtype)]
            others = [each for each in (*rest, *kwargs.values()) if not isinstance(each, (torch.dtype, bool))]
            if len(wanted) != 1 or any(torch.device(each).type != "cuda" for each in others if isinstance(each, (str, torch.device))) or any(not isinstance(each, (str, torch.device)) for each in others):
                raise Real
            dtype = wanted[0]
        return self if dtype == self.dtype else self.like(self.hidden, self.shape, dtype, (*self.casts, dtype))

    def reshape_as(self, func, rest, kwargs):
        """What it makes of the shape, the hidden states get, but for the last dimension."""
        classes = self.shape[self.classes]
        marked = torch.empty_strided(self.shape, [0] * self.dim(), device="meta")
        strides = [0] * self.dim()
        strides[self.classes] = 1
        if func in TURNS:
            turned = func(marked.as_strided(self.shape, strides), *rest, **{key: value for key, value in kwargs.items() if key != "input"})
            where = [i for i, stride in enumerate(turned.stride()) if stride == 1]
            others = [size for i, size in enumerate(turned.shape) if i not in where]
            mine = [size for i, size in enumerate(self.shape) if i != self.classes % self.dim()]
            if len(where) != 1 or others != mine:  # the others changed places as well
                raise Real
            return self.like(self.hidden, turned.shape, classes=where[0] - turned.dim())
        if self.classes != -1:
            raise Real
        shape = func(torch.empty(self.shape, device="meta"), *rest, **{key: value for key, value in kwargs.items() if key != "input"}).shape
        if len(shape) == 0 or shape[-1] != classes:
            raise Real
        return self.like(self.hidden.reshape(*shape[:-1], self.hidden.shape[-1]), shape)

    def slice(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if self.classes != -1 or any(not isinstance(each, (int, slice)) and each is not Ellipsis for each in index):
            raise Real
        if Ellipsis in index:
            at = index.index(Ellipsis)
            index = index[:at] + (slice(None),) * (self.dim() - len(index) + 1) + index[at + 1 :]
        if len(index) == self.dim() and index[-1] != slice(None):
            raise Real
        shape = torch.empty(self.shape, device="meta")[index].shape
        return self.like(self.hidden[index], shape)

    def loss(self, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
        if weight is not None or size_average is not None or reduce is not None or target.is_floating_point() or reduction not in ("mean", "sum"):
            raise Real
        linear, casts = self.linear, self.casts
        linear.used = True

        def piece(hidden, labels):
            with linear.autocast():
                logits = linear.compute(hidden)
            for dtype in casts:
                logits = logits.to(dtype)
            return F.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum", label_smoothing=label_smoothing)

        hidden, labels = self.hidden.reshape(-1, self.hidden.shape[-1]), target.reshape(-1)
        pieces = [checkpoint(piece, *both, use_reentrant=False) for both in zip(hidden.chunk(CHUNKS), labels.chunk(CHUNKS))]
        total = torch.stack(pieces).sum()
        linear.apply(self.change)
        return total if reduction == "sum" else total / (labels != ignore_index).sum()


class Linear:
    """A large weight whose product is deferred."""

    def __init__(self, real, weight, bias):
        self.real, self.weight, self.bias = real, weight, bias
        self.is_autocast, self.dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        self.used = False

    def autocast(self):
        return torch.autocast("cuda", enabled=self.is_autocast, dtype=self.dtype)

    def compute(self, hidden):
        return self.real(hidden, self.weight, self.bias)

    def apply(self, change):
        if id(self.weight) not in change.left_alone:
            change.apply(self.weight)

    def refuse(self, change, why):
        change.left_alone.add(id(self.weight))
        if self.used:  # by cross_entropy as well: else it is some other layer
            change.met.discard(id(self.weight))
            change.refuse(self.weight, why)


class ChunkedLoss(Change):
    name, nothing = "chunked_loss", "no linear layer of 4,096 outputs or more goes straight into cross_entropy"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.left_alone = set()
        F.linear = deferring(self, F.linear)


def deferring(change, real):
    def linear(input, weight, bias=None):  # noqa: A002: PyTorch's name
        if (
            type(input) is not torch.Tensor or type(weight) not in (torch.Tensor, torch.nn.Parameter) or weight.dim() != 2 or weight.shape[0] < LEAST_OUTPUTS
            or weight.shape[0] < 2 * weight.shape[1] or not input.is_cuda or input.dim() < 2 or id(weight) in change.left_alone or not torch.is_grad_enabled()
            or not (input.requires_grad or weight.requires_grad) or torch.compiler.is_compiling()
            or torch._C._functorch.peek_interpreter_stack() is not None
        ):
            return real(input, weight, bias)
        one = Linear(real, weight, bias)
        dtype = one.dtype if one.is_autocast else input.dtype
        return Deferred(change, one, input, (*input.shape[:-1], weight.shape[0]), dtype)

    return linear

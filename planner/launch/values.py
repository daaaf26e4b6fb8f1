# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The part of `gpumemshim plan` that computes the values which decide what a program does: lengths, masks, positions, counts.

Simulated kernels write nothing. PyTorch's own CPU kernels compute what small tensors would hold, on the bytes that simulated CUDA keeps for device memory: after the real
call of an operator, which asks for the same memory as without this, the same operator runs on CPU tensors that lie over these bytes.

    begin(run, {"other": "", "shares": [["train.py:57", 0.3]], "routing": "balanced"})

A value is known where it came from the host, from a fill, or from an operator on known values. Integers and booleans are computed from others too, as if those were zeros, so
that a program goes on sensibly; then the result is not known either, and reading it is reported. Floats are computed from known ones alone.

Why at the dispatcher, at the key CUDA: below autograd, autocast, functorch and every subclass of tensors, so that none of them sees a difference, and calls on tensors of
other devices (meta, CPU, fake ones) never come here. A mode of Python's would change what torch.compile does. Operators get there with their arguments whole, called from
Python, C++ or the backward pass. PyTorch's own kernel, which is called in between, is to be had from 2.9 on.

Which operators are looked at, and how: observed_operators.py, beside this file.

Failure: an operator that cannot be computed leaves its result not known. Nothing raises into the program.
"""

import ctypes
import math
import os
import sys

LIMIT = 1 << 20  # bytes of a tensor of integers or booleans
FLOAT_LIMIT = 64 << 10  # of floats
MOST_EXPERTS = 1024  # more are a vocabulary

POSITIONS = {"argmax", "argmin", "topk", "sort", "argsort", "kthvalue", "mode"}  # whose last result is never negative, whatever the values are
AMP = os.path.join("torch", "amp") + os.sep  # its test for infinite gradients: that a step is left out needs no memory


class Unknown(Exception):
    pass


class Simulation:
    """What libcuda says of the bytes of device memory. The functions hold the GIL: they are short."""

    def __init__(self):
        driver, preloaded = ctypes.PyDLL("libcuda.so.1"), ctypes.PyDLL(None)
        self.bytes, self.learn, self.doubt, self.found = (getattr(driver, f"simcuda_{name}") for name in ("bytes", "learn", "doubt", "found"))
        self.bytes.restype = self.learn.restype = ctypes.c_uint64
        self.bytes.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int))
        self.learn.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int)
        self.doubt.argtypes = (ctypes.c_uint64, ctypes.c_uint64)
        self.found.argtypes = (ctypes.c_uint64,)
        self.doubt.restype = self.found.restype = None
        self.observe = preloaded.simcuda_observe
        self.observe.restype, self.observe.argtypes = ctypes.py_object, (ctypes.py_object,)


NOT_FOUND = (1 << 64) - 1


class Values:
    def __init__(self, torch, run, options):
        self.torch, self.run, self.simulation = torch, run, Simulation()
        self.other, self.shares, self.routing = options.get("other", ""), options.get("shares", []), options.get("routing", "")
        self.routed_calls = 0
        self.positions = {}  # address: elements, of what POSITIONS wrote there last
        self.tensor, self.cpu = torch.Tensor, torch.device("cpu")
        self.is_verbose = "GPUMEMSHIM_PLAN_VALUES_VERBOSE" in os.environ
        self.is_known = ctypes.c_int()
        self.known_pointer = ctypes.byref(self.is_known)
        self.no_function = torch._C.DisableTorchFunction

    # Device memory as CPU tensors.

    @staticmethod
    def span(tensor):
        """Bytes from its first element to behind its last."""
        if tensor.numel() == 0:
            return 0
        return (1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))) * tensor.element_size()

    def over(self, tensor, host, size):
        flat = self.torch.frombuffer((ctypes.c_char * size).from_address(host), dtype=tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride())

    def seen(self, tensor):
        """(CPU tensor over what is there, whether that is known)."""
        if not tensor.is_cuda:
            if tensor.device.type != "cpu":
                raise Unknown
            return tensor, True
        if tensor.numel() == 0:
            return self.torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.cpu), True
        size = self.span(tensor)
        if size > LIMIT or tensor.numel() * tensor.element_size() > LIMIT:
            raise Unknown
        host = self.simulation.bytes(tensor.data_ptr(), size, self.known_pointer)
        if host == 0:
            raise Unknown
        return self.over(tensor, host, size), self.is_known.value != 0

    def copies(self, value, known):
        """The arguments on the CPU; known[0] becomes False where one of them is not."""
        if isinstance(value, self.tensor):
            seen, is_known = self.seen(value)
            known[0] = known[0] and is_known
            return seen
        if isinstance(value, (list, tuple)):
            return type(value)(self.copies(each, known) for each in value)
        if isinstance(value, self.torch.Generator):
            raise Unknown
        if isinstance(value, self.torch.device):
            return self.cpu
        return value

    def is_whole(self, tensor, size):
        return size == tensor.numel() * tensor.element_size()

    def put(self, tensor, value, is_known):
        """`value` becomes what the device tensor holds."""
        if tensor.numel() == 0:
            return
        size = self.span(tensor)
        if size > LIMIT or value.shape != tensor.shape:
            return self.simulation.doubt(tensor.data_ptr(), size)
        if not self.is_whole(tensor, size):  # with gaps, which stay as they are
            _, was_known = self.seen(tensor)
            is_known = is_known and was_known
        host = self.simulation.learn(tensor.data_ptr(), size, is_known)
        if host != 0:
            self.over(tensor, host, size).copy_(value)

    def forget(self, tensor):
        if tensor.is_cuda and tensor.numel() > 0:
            self.simulation.doubt(tensor.data_ptr(), self.span(tensor))

    # Operators.

    def failed(self, handle, error):
        """Not an operator's fault: what it was asked for cannot be computed here. Said where somebody wants to know."""
        if self.is_verbose and not isinstance(error, Unknown):
            import traceback; traceback.print_exc()
            print(f"values: {handle}: {type(error).__name__}: {error}", file=sys.stderr)

    def is_small(self, tensor):
        if not tensor.is_cuda:
            return False
        size = tensor.numel() * tensor.element_size()
        return size <= FLOAT_LIMIT or (size <= LIMIT and self.is_counted(tensor))

    def is_counted(self, tensor):
        return not tensor.is_floating_point() and not tensor.is_complex()

    def results(self, result):
        if isinstance(result, self.tensor):
            return (result,)
        return [each for each in result if isinstance(each, self.tensor)] if isinstance(result, (list, tuple)) else ()

    def may_compute(self):
        return not self.torch._C._cuda_isCurrentStreamCapturing()

    def compute(self, handle, results, args, kwargs):
        known = [True]
        args = self.copies(args, known)
        kwargs = {name: self.copies(value, known) for name, value in (kwargs or {}).items()}
        if not known[0] and not all(self.is_counted(each) for each in results):
            raise Unknown
        values = self.results(handle(*args, **kwargs))
        if len(values) != len(results):
            raise Unknown
        for tensor, value in zip(results, values):
            if tensor.is_cuda:
                self.put(tensor, value, known[0])

    def finite(self, name, args):
        """What is true of every finite float; None: it depends. A program that meets others has lost, whatever its memory."""
        if not args or not isinstance(args[0], self.tensor) or not args[0].is_floating_point():
            return None
        if name == "isnan":
            return False
        if name not in ("eq", "ne") or len(args) < 2:
            return None
        is_same = isinstance(args[1], self.tensor) and args[1].data_ptr() == args[0].data_ptr() and args[1].stride() == args[0].stride()
        is_infinite = isinstance(args[1], float) and math.isinf(args[1])
        return name == "eq" if is_same else name == "ne" if is_infinite else None

    def note_positions(self, name, results):
        for each in results if self.positions else ():
            self.positions.pop(each.data_ptr(), None)
        if name in POSITIONS and results and results[-1].dtype is self.torch.int64 and results[-1].numel() > 0:
            self.positions[results[-1].data_ptr()] = results[-1].numel()

    def position(self, name, args):
        """What is true of every position in a tensor; None: it depends."""
        if len(args) < 2 or not isinstance(args[0], self.tensor) or isinstance(args[1], bool) or not isinstance(args[1], int):
            return None
        if args[0].dtype is not self.torch.int64 or args[0].numel() > self.positions.get(args[0].data_ptr(), 0):
            return None
        if args[1] == 0:
            return {"lt": False, "ge": True}.get(name)
        return {"lt": False, "le": False, "eq": False, "ge": True, "gt": True, "ne": True}.get(name) if args[1] < 0 else None

    def functional(self, handle, name):
        has_positions = name in POSITIONS

        def after(result, args, kwargs):
            if result.__class__ is self.tensor and result.nbytes > LIMIT and not self.positions and not has_positions:
                return  # most calls end here
            results = self.results(result)
            self.note_positions(name, results)
            if not results or not all(map(self.is_small, results)) or not self.may_compute():
                return
            truth = None
            if results[0].dtype is self.torch.bool:
                truth = self.finite(name, args)
                truth = self.position(name, args) if truth is None and self.positions else truth
            if truth is not None:
                with self.no_function():
                    self.put(results[0], self.torch.full(results[0].shape, truth, device=self.cpu), True)
                return
            with self.no_function():
                try:
                    self.compute(handle, results, args, kwargs)
                except Unknown:
                    pass  # fresh memory is not known
                except Exception as error:
                    self.failed(handle, error)

        return after

    def routed(self, handle, name):
        """Which experts a router of floats that nobody computed chooses: as --routing says."""
        compute = self.functional(handle, name)

        def after(result, args, kwargs):
            compute(result, args, kwargs)
            source, indices = args[0], self.results(result)[-1]
            place, otherwise = (2, -1) if name == "topk" else (1, None)
            dimension = args[place] if len(args) > place else otherwise
            if not source.is_floating_point() or source.dim() < 2 or dimension not in (-1, source.dim() - 1) or source.shape[-1] > MOST_EXPERTS or not self.is_small(indices):
                return
            with self.no_function():
                if self.seen(indices)[1] or not self.may_compute():
                    return
                self.put(indices, self.experts(indices.numel(), source.shape[-1], indices.shape[-1] if name == "topk" else 1).reshape(indices.shape), True)
            self.run.pinned("--routing")

        return after

    def experts(self, number, experts, each):
        """For number / each tokens in a row, `each` different ones of so many experts."""
        torch, rows = self.torch, number // max(each, 1)
        if self.routing == "worst":
            return torch.arange(each, device=self.cpu).repeat(rows)
        if self.routing == "balanced":
            return torch.arange(number, device=self.cpu) % experts
        self.routed_calls += 1
        generator = torch.Generator(self.cpu).manual_seed(int(self.routing) + self.routed_calls)
        return torch.rand(rows, experts, generator=generator, device=self.cpu).topk(each).indices.flatten()

    def counted(self, handle, name, along):
        """How much it finds is asked before it is called, since that is the size of its result."""
        compute = self.functional(handle, name)

        def before(args, kwargs):
            found, source = NOT_FOUND, args[0]
            if source.is_cuda and self.may_compute():
                share = self.share_here()
                with self.no_function():
                    try:
                        seen, is_known = self.seen(source)
                        if is_known:
                            found = self.results(handle(seen, *args[1:], **(kwargs or {})))[0].shape[args[1] if along and len(args) > 1 else 0]
                    except Unknown:
                        pass
                    except Exception as error:
                        self.failed(handle, error)
                if found == NOT_FOUND and share is not None:
                    found = math.ceil(share * source.numel())
            self.simulation.found(found)

        def after(result, args, kwargs):
            self.simulation.found(NOT_FOUND)
            compute(result, args, kwargs)

        return before, after

    def writing(self, handle, places, names, computed, overwrites):
        def targets(args, kwargs):
            for place in places:
                yield from self.results(args[place]) if place < len(args) else ()
            for name in names:
                yield from self.results((kwargs or {}).get(name))

        is_simple = places == (0,) and not names

        def after(result, args, kwargs):
            if is_simple and args[0].__class__ is self.tensor and not self.positions and args[0].is_cuda and (not computed or args[0].nbytes > LIMIT):
                return self.forget(args[0])  # most calls end here
            written = [each for each in targets(args, kwargs) if each.is_cuda]
            if not written:
                return
            self.note_positions("", written)
            with self.no_function():
                try:
                    if not computed or not all(map(self.is_small, written)) or not self.may_compute():
                        raise Unknown
                    self.write(handle, places, names, written, overwrites, args, kwargs)
                except Exception as error:
                    self.failed(handle, error)
                    for each in written:
                        self.forget(each)

        return after

    def write(self, handle, places, names, written, overwrites, args, kwargs):
        known = [True]

        def target(tensor):
            if not isinstance(tensor, self.tensor):
                raise Unknown
            if overwrites or names:
                return self.torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.cpu)
            seen, is_known = self.seen(tensor)
            known[0] = known[0] and is_known
            return seen.clone()

        args = [target(each) if place in places else self.copies(each, known) for place, each in enumerate(args)]
        kwargs = {name: target(value) if name in names else self.copies(value, known) for name, value in (kwargs or {}).items()}
        if not known[0] and not all(map(self.is_counted, written)):
            raise Unknown
        handle(*args, **kwargs)
        values = [args[place] for place in places if place < len(args)] + [kwargs[name] for name in names if name in kwargs]
        for tensor, value in zip(written, values):
            self.put(tensor, value, known[0])

    # Reading one number.

    def share_here(self):
        """The share that the user states for the line that asks; None: none."""
        if not self.shares:
            return None
        frame = sys._getframe(1)
        while frame is not None:
            place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            for wanted, share in self.shares:
                if wanted == place:
                    self.run.pinned(wanted)
                    return share
            frame = frame.f_back
        return None

    def count(self, what):
        self.run.notes[what] = self.run.notes.get(what, 0) + 1

    def read(self, args, _):
        """With other values ("flip"; "true" or "false": each condition is that): what a program is given where it reads a number that nobody computed."""
        tensor = args[0]
        if not tensor.is_cuda:
            return None
        with self.no_function():
            try:
                seen, is_known = self.seen(tensor)
            except Unknown:
                return None
            if is_known or AMP in sys._getframe(1).f_code.co_filename:
                return None
            value = seen.item()
        if isinstance(value, bool):
            self.count("unknown_true" if value else "unknown_false")
        if not self.other:
            return None
        self.count("other_values")
        if isinstance(value, bool):
            return (not value if self.other == "flip" else self.other == "true",)
        if isinstance(value, int):
            self.count("other_integers")
            return (64 if value == 0 else 0,)
        return (1e4 if value == 0 else 0.0,)


def observed_operators():
    path = os.path.join(os.path.dirname(__file__), "observed_operators.py")
    scope = {"__name__": "gpumem_observed_operators", "__file__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), scope)
    return scope


def begin(run, options):
    torch, which = run.torch, observed_operators()
    values, own_kernel = Values(torch, run, options), torch._C._dispatch_get_computed_kernel_for_dispatch_key
    library = torch.library.Library("aten", "IMPL", "CUDA")
    observed = [(overload, both) for base, overload in which["operators"](torch) if (both := which["looks"](torch, values, base, overload)) is not None]

    def observe():
        for overload, both in observed:
            kernel = own_kernel(overload.name(), "CUDA").call_boxed
            library.impl(overload, values.simulation.observe((kernel, *both)), "CUDA", with_keyset=True, allow_override=True)

    which["quietly"](torch, observe)
    run.values = (values, library)  # as long as the process lives

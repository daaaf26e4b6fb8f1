# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The part of `gpumemshim plan` that computes the values which decide what a program does: lengths, masks, positions, counts.

Simulated kernels write nothing. PyTorch's own CPU kernels compute what small tensors would hold, on the bytes that simulated CUDA keeps for device memory: after the real
call of an operator, which asks for the same memory as without this, the same operator runs on CPU tensors that lie over these bytes.

    begin(run, {"other": "", "at": "", "draw": 0, "shares": [["train.py:57", 0.3]], "routing": "balanced"})

A value is known where it came from the host, from a fill, or from an operator on known values; drawn where it follows from random numbers, which are drawn here as they would
be there. Integers and booleans are computed from others too, as if those were zeros, so that a program goes on sensibly; then the result is not known either, and reading it is
reported. Floats are computed from known and drawn ones alone.

Why at the dispatcher, at the key CUDA: below autograd, autocast, functorch and every subclass of tensors, so that none of them sees a difference, and calls on tensors of
other devices (meta, CPU, fake ones) never come here. A mode of Python's would change what torch.compile does. Operators get there with their arguments whole, called from
Python, C++ or the backward pass. PyTorch's own kernel, which is called in between, is to be had from 2.9 on.

Beside this file: device_bytes.py (what is held of a tensor, and how true it is), observed_operators.py (which operators are looked at, and how), truths.py (results of
arguments that are known in part), draws.py (random numbers), routing.py (experts), decisions.py (what is read), compared.py (what numbers that were read are compared with).

Failure: an operator that cannot be computed leaves its result not known. Nothing raises into the program.
"""

import math
import os
import sys

DENSE_LIMIT = 64 << 10  # bytes of what an operator of DENSE reads or gives
DENSE = {"dot", "mm", "bmm", "addmm", "baddbmm", "_cdist_forward", "im2col"}  # more work than elements

POSITIONS = {"argmax", "argmin", "topk", "sort", "argsort", "kthvalue", "mode"}  # whose last result is never negative, whatever the values are
NOT_FOUND = (1 << 64) - 1


def beside(name):
    """What the file of that name beside this one defines."""
    path = os.path.join(os.path.dirname(__file__), f"{name}.py")
    scope = {"__name__": f"gpumem_{name}", "__file__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), scope)
    return scope


BYTES = beside("device_bytes")
Unknown, UNKNOWN, DRAWN, KNOWN, is_counted = (BYTES[name] for name in ("Unknown", "UNKNOWN", "DRAWN", "KNOWN", "is_counted"))
result_truths = beside("truths")["result_truths"]
DECISIONS = beside("decisions")
lines_on_stack = DECISIONS["lines_on_stack"]


class Operands:
    """The tensors among an operator's arguments, as CPU tensors, each with its truth."""

    def __init__(self, values, limit):
        self.values, self.limit, self.device, self.host, self.truth = values, limit, [], [], []

    def copies(self, value):
        """The arguments with CPU tensors in place of the device's."""
        values = self.values
        if isinstance(value, values.tensor):
            if value.numel() * value.element_size() > self.limit and value.is_cuda:
                raise Unknown
            seen, truth = values.held.seen(value)
            self.device.append(value)
            self.host.append(seen)
            self.truth.append(truth)
            return seen
        if isinstance(value, (list, tuple)):
            return type(value)(self.copies(each) for each in value)
        if isinstance(value, values.torch.Generator):
            raise Unknown
        if isinstance(value, values.torch.device):
            return values.cpu
        return value

    def least(self):
        return min(self.truth, default=KNOWN)

    def parts(self):
        """[(value, truth of each element, or None where it is known)]"""
        return [(host, None if truth == KNOWN else self.values.held.truths(device)) for device, host, truth in zip(self.device, self.host, self.truth)]


def replaced(value, tensor, replacements):
    """The same arguments with other tensors, in the order of Operands.copies."""
    if isinstance(value, tensor):
        return next(replacements)
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(each, tensor, replacements) for each in value)
    return value


class Values:
    def __init__(self, torch, run, options):
        self.torch, self.run, self.held = torch, run, BYTES["DeviceBytes"](torch)
        self.simulation, self.tensor, self.cpu = self.held.simulation, torch.Tensor, self.held.cpu
        self.shares, self.routing = options.get("shares", []), beside("routing")["Routing"](self, options)
        self.decisions = DECISIONS["Decisions"](run, torch, self.held, options)
        if options.get("other", "") not in ("", "skip"):
            self.decisions.comparisons = beside("compared")["Comparisons"](self.decisions)
            self.decisions.comparisons.begin(torch)
        self.draws = beside("draws")["Draws"](torch, self.held, options.get("draw", 0))
        self.may_overflow = False  # a GradScaler looks for gradients that are not finite
        self.positions = self.decisions.sizes
        self.is_verbose = "GPUMEMSHIM_PLAN_VALUES_VERBOSE" in os.environ
        self.no_function = torch._C.DisableTorchFunction

    def failed(self, handle, error):
        """Not an operator's fault: what it was asked for cannot be computed here. Said where somebody wants to know."""
        if self.is_verbose and not isinstance(error, Unknown):
            import traceback; traceback.print_exc()
            print(f"values: {handle}: {type(error).__name__}: {error}", file=sys.stderr)

    def results(self, result):
        if isinstance(result, self.tensor):
            return (result,)
        return [each for each in result if isinstance(each, self.tensor)] if isinstance(result, (list, tuple)) else ()

    def may_compute(self):
        return not self.torch._C._cuda_isCurrentStreamCapturing()

    def limit(self, name):
        return DENSE_LIMIT if name in DENSE else BYTES["COUNTED_LIMIT"]

    def compute(self, handle, name, results, args, kwargs):
        operands = Operands(self, self.limit(name))
        args, kwargs = operands.copies(args), {key: operands.copies(value) for key, value in (kwargs or {}).items()}
        least = operands.least()
        if any(each.nbytes > self.limit(name) for each in results):
            raise Unknown
        if least == UNKNOWN and any(each.nbytes > BYTES["GUESSED_LIMIT"] for each in results):
            raise Unknown
        computed = self.results(handle(*args, **kwargs))
        if len(computed) != len(results):
            raise Unknown
        truths = None
        if least != KNOWN and len(results) == 1 and results[0].is_cuda:

            def evaluate(hosts):
                return self.results(handle(*replaced(args, self.tensor, given := iter(hosts)), **{key: replaced(value, self.tensor, given) for key, value in kwargs.items()}))[0]

            truths = result_truths(self.torch, name, evaluate, operands.parts())
        self.keep(name, results, computed, least, truths)

    def keep(self, name, results, computed, least, truths):
        for tensor, value in zip(results, computed):
            if not tensor.is_cuda:
                continue
            if truths is not None and truths.shape == tensor.shape:
                self.held.put_each(tensor, value, truths)
            elif least == UNKNOWN and not is_counted(tensor):
                self.held.forget(tensor)
            else:
                self.held.put(tensor, value, least)
            # "All are true" is the answer that lets a program go on, and what simulated CUDA says itself (copy.cc).
            if name == "all" and tensor.numel() == 1 and self.held.seen(tensor)[1] == UNKNOWN:
                self.held.put(tensor, self.torch.ones_like(value), UNKNOWN)

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

    def note_positions(self, name, results, args=()):
        for each in results if self.positions else ():
            self.positions.pop(each.data_ptr(), None)
        if name in POSITIONS and results and results[-1].dtype is self.torch.int64 and results[-1].numel() > 0:
            dimension = next((each for each in args[1:] if isinstance(each, int) and not isinstance(each, bool)), None) if name not in ("topk", "kthvalue") else -1
            shape = args[0].shape if args and isinstance(args[0], self.tensor) else ()
            among = args[0].numel() if dimension is None or not shape else shape[dimension] if -len(shape) <= dimension < len(shape) else args[0].numel()
            self.positions[results[-1].data_ptr()] = (results[-1].numel(), among)

    def position(self, name, args):
        """What is true of every position in a tensor; None: it depends."""
        if len(args) < 2 or not isinstance(args[0], self.tensor) or isinstance(args[1], bool) or not isinstance(args[1], int):
            return None
        if args[0].dtype is not self.torch.int64 or args[0].numel() > self.positions.get(args[0].data_ptr(), (0, 0))[0]:
            return None
        if args[1] == 0:
            return {"lt": False, "ge": True}.get(name)
        return {"lt": False, "le": False, "eq": False, "ge": True, "gt": True, "ne": True}.get(name) if args[1] < 0 else None

    def is_long(self, tensor):
        """Longer than what is held: most calls end with that."""
        return tensor.nbytes > BYTES["FLOAT_LIMIT"] and not self.held.is_held(tensor)

    def functional(self, handle, name, is_drawn=False):
        has_positions = name in POSITIONS

        def after(result, args, kwargs):
            if result.__class__ is self.tensor and not self.positions and not has_positions and self.is_long(result):
                return
            results = self.results(result)
            self.note_positions(name, results, args)
            if not results or not all(map(self.held.is_held, results)) or not self.may_compute():
                return
            truth = None
            if results[0].dtype is self.torch.bool:
                truth = self.finite(name, args)
                truth = self.position(name, args) if truth is None and self.positions else truth
            with self.no_function():
                try:
                    if truth is not None:
                        return self.held.put(results[0], self.torch.full(results[0].shape, truth, device=self.cpu), UNKNOWN if self.may_overflow else KNOWN)
                    if is_drawn:
                        return self.draw(handle, name, results, args, kwargs)
                    self.compute(handle, name, results, args, kwargs)
                except Unknown:
                    self.unknown(name, results)  # fresh memory is not known
                except Exception as error:
                    self.failed(handle, error)

        return after

    def begins_scaling(self, *_):
        self.may_overflow = True

    def unknown(self, name, results):
        if name == "all" and len(results) == 1 and results[0].numel() == 1:
            self.held.put(results[0], self.torch.ones(results[0].shape, dtype=results[0].dtype, device=self.cpu), UNKNOWN)

    def draw(self, handle, name, results, args, kwargs):
        """Of weights that nobody knows any choice is as likely: what a policy that nobody trained does."""
        operands, args = Operands(self, BYTES["FLOAT_LIMIT"]), [each for each in args if not isinstance(each, self.torch.Generator)]
        try:
            known = operands.copies(args)
        except Unknown:
            known = None
        if known is None or operands.least() == UNKNOWN:
            if name != "multinomial":
                raise Unknown
            known = [self.torch.ones(args[0].shape, device=self.cpu), *args[1:]]
        for tensor, value in zip(results, self.results(self.draws.functional(handle, known, kwargs))):
            self.held.put(tensor, value, DRAWN)

    def counted(self, handle, name, along):
        """How much it finds is asked before it is called, since that is the size of its result."""
        compute = self.functional(handle, name)

        def before(args, kwargs):
            found, source, truth = NOT_FOUND, args[0], UNKNOWN
            if source.is_cuda and self.may_compute():
                share = self.share_here()
                with self.no_function():
                    try:
                        seen, truth = self.held.seen(source)
                        if truth != UNKNOWN:
                            found = self.results(handle(seen, *args[1:], **(kwargs or {})))[0].shape[args[1] if along and len(args) > 1 else 0]
                    except Unknown:
                        pass
                    except Exception as error:
                        self.failed(handle, error)
                if found == NOT_FOUND and share is not None:
                    found = math.ceil(share * source.numel())
                elif truth != KNOWN:
                    self.decisions.count("drawn_counts" if found != NOT_FOUND else "unknown_counts")
            self.simulation.found(found)

        def after(result, args, kwargs):
            self.simulation.found(NOT_FOUND)
            compute(result, args, kwargs)

        return before, after

    def targets(self, places, names, args, kwargs):
        for place in places:
            yield from self.results(args[place]) if place < len(args) else ()
        for name in names:
            yield from self.results((kwargs or {}).get(name))

    def writing(self, handle, name, places, names, computed, overwrites):
        is_simple = places == (0,) and not names

        def after(result, args, kwargs):
            if is_simple and args[0].__class__ is self.tensor and not self.positions and args[0].is_cuda and (not computed or self.is_long(args[0])):
                return self.held.forget(args[0])  # most calls end here
            written = [each for each in self.targets(places, names, args, kwargs) if each.is_cuda]
            if not written:
                return self.copied(args) if name == "copy" else None
            self.note_positions("", written)
            with self.no_function():
                try:
                    if not computed or not all(map(self.held.is_held, written)) or not self.may_compute():
                        raise Unknown
                    self.write(handle, name, places, names, written, overwrites, args, kwargs)
                except Exception as error:
                    self.failed(handle, error)
                    for each in written:
                        self.held.forget(each)

        return after

    def filling(self, handle, places, names):
        """Random numbers in place of what the target held."""

        def after(result, args, kwargs):
            written = [each for each in self.targets(places, names, args, kwargs) if each.is_cuda]
            self.note_positions("", written)
            with self.no_function():
                for each in written:
                    try:
                        if self.may_compute() and self.draws.fill(handle, each, args[len(places):], kwargs, bool(names)):
                            continue
                    except Exception as error:
                        self.failed(handle, error)
                    self.held.forget(each)

        return after

    def copied(self, args):
        if len(args) > 1 and isinstance(args[1], self.tensor) and args[1].is_cuda and args[0].device.type == "cpu" and self.may_compute():
            with self.no_function():
                try:
                    self.decisions.copied(args[1], args[0])
                except Unknown:
                    pass

    def write(self, handle, name, places, names, written, overwrites, args, kwargs):
        """The operator on copies of its targets, which the device tensors then hold."""
        operands, is_fresh = Operands(self, self.limit(name)), overwrites or bool(names)

        def target(tensor):
            if not isinstance(tensor, self.tensor):
                raise Unknown
            return self.held.like(tensor) if is_fresh else operands.copies(tensor)

        args = [target(each) if place in places else operands.copies(each) for place, each in enumerate(args)]
        kwargs = {key: target(value) if key in names else operands.copies(value) for key, value in (kwargs or {}).items()}
        least = operands.least()
        if least == UNKNOWN and any(each.nbytes > BYTES["GUESSED_LIMIT"] for each in written):
            raise Unknown

        def evaluate(hosts):
            given = iter(hosts)
            own = [(each if is_fresh else next(given).clone()) if place in places else replaced(each, self.tensor, given) for place, each in enumerate(args)]
            named = {key: value if key in names else replaced(value, self.tensor, given) for key, value in kwargs.items()}
            handle(*own, **named)
            return [own[place] for place in places if place < len(own)] + [named[key] for key in names if key in named]

        values, truths = evaluate(operands.host), None
        if least != KNOWN and len(written) == 1 and not is_fresh:
            truths = result_truths(self.torch, name, lambda hosts: evaluate(hosts)[0], operands.parts())
        self.keep(name, written, values, least, truths)

    def share_here(self):
        """The share that the user states for the line that asks; None: none."""
        for line in lines_on_stack(sys._getframe(1)) if self.shares else ():
            for wanted, share in self.shares:
                if wanted == line:
                    self.run.pinned(wanted)
                    return share
        return None


def begin(run, options):
    torch, which = run.torch, beside("observed_operators")
    values, own_kernel = Values(torch, run, options), torch._C._dispatch_get_computed_kernel_for_dispatch_key
    library = torch.library.Library("aten", "IMPL", "CUDA")
    observed = [(overload, both) for base, overload in which["operators"](torch) if (both := which["looks"](torch, values, base, overload)) is not None]

    def observe():
        for overload, both in observed:
            kernel = own_kernel(overload.name(), "CUDA").call_boxed
            library.impl(overload, values.simulation.observe((kernel, *both)), "CUDA", with_keyset=True, allow_override=True)

    which["quietly"](torch, observe)
    run.values = (values, library)  # as long as the process lives

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Marks, stages, steps, names of tensors."""

import functools
import inspect
import itertools

from gpumemshim._library import find, text


def recording():
    """Whether memory events of this process are being recorded now. False without the recorder, before CUDA is used, and while paused."""
    library = find()
    return library is not None and library.recording() != 0


def mark(name, **fields):
    """A mark at this instant, with the stack of the call: timelines show it, and `gpumemshim at NAME` what was alive.

        gpumemshim.mark("epoch done", epoch=3, loss=0.21)

    A value that lies on a GPU is shown by its shape, since to read it would make the program wait: pass loss.item() where you have it anyway.
    """
    library = find()
    if library is not None:
        library.mark(text(with_fields(name, fields)))


def snapshot(name):
    """A moment whose memory is to be shown: `gpumemshim report` lists it with its categories, `gpumemshim at NAME` says all of it. Nothing is copied
    or walked when it is called.

        gpumemshim.snapshot("model on the GPU")
    """
    library = find()
    if library is not None:
        library.snapshot(text(name))


class stage:  # noqa: N801 (used as a function)
    """What happens inside belongs to this stage, on other threads (autograd's) too; stages may stand inside one another.

        with gpumemshim.stage("load weights"):
            model.load_state_dict(weights)

        @gpumemshim.stage("evaluate")
        def evaluate(model): ...

    Of an `async` function the stage is open while it waits, too. A generator cannot be decorated: write `with stage(...)` in it.
    """

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        library = find()
        if library is not None:
            library.stage_push(text(self.name))
        return self

    def __exit__(self, *_):
        library = find()
        if library is not None:
            library.stage_pop()

    def __call__(self, function):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("gpumemshim.stage cannot decorate a generator: its body runs between calls. Write `with gpumemshim.stage(...)` in it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waits(*args, **kwargs):
                with self:
                    return await function(*args, **kwargs)

            return waits

        @functools.wraps(function)
        def runs(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return runs


_steps = itertools.count(1)


def step(number=None):
    """Step `number` of the process begins, and the one before ends; without a number the next one. Without a call of it steps are counted by the
    optimizer's.

        for batch in loader:
            gpumemshim.step()
    """
    global _steps
    library = find()
    if library is None:
        return
    if number is not None:
        _steps = itertools.count(int(number) + 1)
    library.step(next(_steps) if number is None else int(number))


def tag(tensor, name):
    """The memory of a tensor bears this name, until it is freed: `gpumemshim at` lists it. Returns the tensor.

        cache = gpumemshim.tag(torch.empty(shape, device="cuda"), "kv cache")

    Of a tensor that shares memory with others the whole block is named; of several names the last counts. CuPy's and Numba's arrays have names too.
    """
    library = find()
    if library is not None:
        address, size = place_of(tensor)
        if address:
            library.name(address, size, text(name))
    return tensor


def pause():
    """Record nothing more until resume(). What is allocated or freed meanwhile stays unknown."""
    library = find()
    if library is not None:
        library.pause()


def resume():
    """Record again; also begins a recording that GPUMEMSHIM_START=off held back."""
    library = find()
    if library is not None:
        library.resume()


def with_fields(name, fields):
    """ "name (key=value, ...)"; `gpumemshim at` finds it by the name alone."""
    if not fields:
        return name
    return f"{name} ({', '.join(f'{key}={shown(value)}' for key, value in fields.items())})"


def shown(value):
    try:
        if getattr(value, "is_cuda", False):
            return f"{type(value).__name__}{list(value.shape)}"
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    except Exception:  # of the value's own making
        return "?"


def place_of(array):
    """(address, bytes) of its data on a GPU; (0, 0) where it has none there."""
    try:
        array = getattr(array, "_local_tensor", array)  # this rank's part of a DTensor
        if hasattr(array, "data_ptr"):
            return (array.data_ptr(), array.numel() * array.element_size()) if array.is_cuda else (0, 0)
        interface = array.__cuda_array_interface__
        size = int(interface["typestr"][2:])
        for length in interface["shape"]:
            size *= length
        return interface["data"][0], size
    except Exception:  # no array, or one without data (FakeTensor)
        return 0, 0

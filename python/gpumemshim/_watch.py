# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a call allocated: a stage around it, and PyTorch's own counters before and after."""

import functools
import sys
import typing

from gpumemshim._library import find
from gpumemshim._annotations import mark, stage


class Change(typing.NamedTuple):
    """What one call did to PyTorch's allocated memory, of all GPUs. Other threads' allocations during the call are in it."""

    name: str
    allocated_bytes: int  # of everything that was allocated meanwhile
    freed_bytes: int
    error: str = ""  # the class of the exception that ended the call

    @property
    def grown_bytes(self):
        return self.allocated_bytes - self.freed_bytes

    def __str__(self):
        ended = f", ended by {self.error}" if self.error else ""
        return f"{self.name}: {self.grown_bytes:+,} B of GPU memory ({self.allocated_bytes:,} allocated, {self.freed_bytes:,} freed){ended}"


def watch(function=None, *, name=None, tell=None):
    """Each call of the function is a stage of its name, and leaves a mark that says what it allocated; `gpumemshim stages` has its peak and what that was
    for. `tell` is called with the Change of each call, for instance print.

        load = gpumemshim.watch(load)

        @gpumemshim.watch(name="sample", tell=print)
        def sample(model, prompt): ...

    Without the recorder the function is called, and nothing else happens. PyTorch's counters are only read; without PyTorch they are 0.
    """
    if function is None:
        return functools.partial(watch, name=name, tell=tell)
    label = name or getattr(function, "__qualname__", type(function).__qualname__)

    @functools.wraps(function)
    def watched(*args, **kwargs):
        if find() is None:
            return function(*args, **kwargs)
        before, error = counters(), ""
        try:
            with stage(label):
                return function(*args, **kwargs)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            after = counters()
            change = Change(label, *(max(0, now - then) for now, then in zip(after, before)), error)
            mark(f"watch {label}", allocated=change.allocated_bytes, freed=change.freed_bytes, grown=change.grown_bytes)
            if tell is not None:
                tell(change)

    return watched


def counters():
    """(bytes ever allocated, bytes ever freed) by PyTorch, on all GPUs; nothing is started for it."""
    cuda = sys.modules.get("torch.cuda")
    allocated = freed = 0
    try:
        if cuda is not None and cuda.is_initialized():
            for device in range(cuda.device_count()):
                stats = cuda.memory_stats(device)
                allocated += stats.get("allocated_bytes.all.allocated", 0)
                freed += stats.get("allocated_bytes.all.freed", 0)
    except Exception:  # an allocator that does not count
        return 0, 0
    return allocated, freed

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What each module of a model is given and gives back, and what PyTorch had allocated before and after: a look that somebody asks for, without the recorder."""

import sys
import threading

from gpumemshim._tables import Table

MOST_TENSORS = 16  # of one call, in a text
MOST_DEPTH = 4  # of lists and dicts in each other


def tensors_in(value, depth=0):
    """The tensors of what a module was given, in order; those of lists, tuples and dicts too."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)) and depth < MOST_DEPTH:
        for each in value:
            yield from tensors_in(each, depth + 1)
    elif isinstance(value, dict) and depth < MOST_DEPTH:
        for each in value.values():
            yield from tensors_in(each, depth + 1)


def shapes(*values):
    """ "float32[8, 256], int64[8]"; "" of no tensor."""
    found = list(tensors_in(values))
    texts = [f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" for each in found[:MOST_TENSORS]]
    return ", ".join(texts + [f"{len(found) - MOST_TENSORS} more"] * (len(found) > MOST_TENSORS))


def allocated(values, module):
    """Bytes of PyTorch's blocks on the GPU that a call is about: of its parameters, else of what it is given; None where that is none."""
    torch = sys.modules["torch"]
    near = next((each for each in module.parameters() if each.is_cuda), None)
    if near is None:
        near = next((each for each in tensors_in(values) if each.is_cuda), None)
    return None if near is None else torch.cuda.memory_allocated(near.device)


class forwards:
    """While a block runs, a row for each forward pass of each module of `model`: shapes of its inputs and outputs, and the bytes that PyTorch had allocated
    before and after.

        with gpumemshim.forwards(model) as calls:
            model(batch)
        print(calls)
        max(calls, key=lambda call: call["grown_bytes"] or 0)

    Rows come in the order in which the calls begin. `calls` is how many of each module are kept (3; None = all). What a module made and did not give back, such as
    what autograd keeps, is in `grown_bytes` too. Of a call that failed `outputs`, `after_bytes` and `grown_bytes` are None. The modules have hooks in the block
    and none after it; a model that torch.compile compiled is compiled anew for them.
    """

    def __init__(self, model, *, calls=3):
        self.model, self.most = model, calls
        self.rows, self.handles, self.counts = Table(), [], {}
        self.running = threading.local()

    def __enter__(self):
        for name, module in self.model.named_modules():
            before, after = self.hooks_of(name, module)
            self.handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            self.handles.append(module.register_forward_hook(after, with_kwargs=True))
        return self.rows

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def hooks_of(self, name, module):
        kind = type(module).__name__

        def before(_, args, kwargs):
            self.counts[name] = call = self.counts.get(name, 0) + 1
            row = None
            if self.most is None or call <= self.most:
                row = {"module": name or "(the model)", "class": kind, "call": call, "inputs": shapes(args, kwargs), "outputs": None}
                row.update(before_bytes=allocated((args, kwargs), module), after_bytes=None, grown_bytes=None)
                self.rows.append(row)
            self.stack().append((name, row))

        def after(_, args, kwargs, output):
            stack = self.stack()
            while stack and stack[-1][0] != name:  # calls that failed inside this one
                stack.pop()
            row = stack.pop()[1] if stack else None
            if row is None:
                return
            row["outputs"], row["after_bytes"] = shapes(output), allocated((args, kwargs, output), module)
            if row["before_bytes"] is not None and row["after_bytes"] is not None:
                row["grown_bytes"] = row["after_bytes"] - row["before_bytes"]

        return before, after

    def stack(self):
        if not hasattr(self.running, "stack"):
            self.running.stack = []
        return self.running.stack

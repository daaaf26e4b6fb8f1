# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a planned program is given where it reads a number that nobody computed. values.py loads this.

    decisions = Decisions(run, torch, held, {"other": "flip", "at": "train.py:12"})
    decisions.read(result, args, kwargs)     # after aten::_local_scalar_dense: .item(), bool(), int(), float()
    decisions.copied(source, target)         # a small copy to the host: .tolist(), .cpu(), .numpy()

"other" is "": what the simulation has; "flip": another value than that; "true", "false": each condition is that. "at": only where that line is on the stack.
The notes count what was read: unknown_true, unknown_false (conditions), unknown_values (numbers), drawn_reads among these, other_values and other_integers (given otherwise).

A condition of drawn numbers is read as they say, and still counts: another draw may say otherwise.
"""

import os
import sys

AMP = os.path.join("torch", "amp") + os.sep  # its test for infinite gradients: that a step is left out needs no memory
MOST_COPIED = 4096  # elements; longer copies are results, not decisions
OTHER_INTEGER, OTHER_FLOAT = 64, 1e4


def lines_on_stack(frame):
    """"train.py:12" of each frame, the innermost first."""
    while frame is not None:
        yield f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back


class Decisions:
    def __init__(self, run, torch, held, options):
        self.run, self.torch, self.held = run, torch, held
        self.other, self.at = options.get("other", ""), os.path.basename(options.get("at", ""))
        self.sizes = {}  # address: (elements, how many there are to choose from), of positions that were written there last
        self.sizing = None  # the frame and instruction that called an operator which reads numbers for the size of its result

    def count(self, what):
        self.run.notes[what] = self.run.notes.get(what, 0) + 1

    def begins_sizing(self, *_):
        frame = sys._getframe(1)
        self.sizing = (id(frame), frame.f_lasti)

    def is_sizing(self, frame):
        return self.sizing == (id(frame), frame.f_lasti)

    def gives_another(self, frame):
        return bool(self.other) and (not self.at or self.at in lines_on_stack(frame))

    def another(self, value, most):
        """`most`: positions are less than that; None: any number."""
        if isinstance(value, bool):
            return not value if self.other == "flip" else self.other == "true"
        if isinstance(value, int):
            return (OTHER_INTEGER if most is None else min(OTHER_INTEGER, max(most - 1, 0))) if value == 0 else 0
        return OTHER_FLOAT if value == 0 else 0.0

    def note(self, value, truth):
        if truth == self.held.DRAWN:
            self.count("drawn_reads")
        self.count("unknown_values" if not isinstance(value, bool) else "unknown_true" if value else "unknown_false")

    def note_other(self, before, after):
        if before == after:
            return
        self.count("other_values")
        if isinstance(before, int) and not isinstance(before, bool):
            self.count("other_integers")

    def read(self, result, args, _):
        tensor, frame = args[0], sys._getframe(1)
        if not tensor.is_cuda:
            return None
        with self.torch._C.DisableTorchFunction():
            try:
                seen, truth = self.held.seen(tensor)
            except Exception:
                return None
            if truth == self.held.KNOWN or AMP in frame.f_code.co_filename or self.is_sizing(frame):
                return None
            value = seen.item()
        self.note(value, truth)
        if not self.gives_another(frame):
            return (value,)
        other = self.another(value, self.sizes.get(tensor.data_ptr(), (0, None))[1])
        self.note_other(value, other)
        return (other,)

    def copied(self, source, target):
        frame = sys._getframe(1)
        if not 0 < source.numel() <= MOST_COPIED or source.shape != target.shape:
            return
        seen, truth = self.held.seen(source)
        if truth == self.held.KNOWN or self.is_sizing(frame):
            return
        value = seen.flatten()[0].item()
        if isinstance(value, complex):
            return
        self.note(value, truth)
        target.copy_(seen)  # drawn numbers may have come after the real copy
        if self.gives_another(frame):
            other = self.another(value, self.sizes.get(source.data_ptr(), (0, None))[1])
            self.note_other(value, other)
            target.fill_(other)

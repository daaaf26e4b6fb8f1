# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a planned program is given where it reads a number that nobody computed. values.py loads this.

    decisions = Decisions(run, torch, held, {"other": "flip", "at": "train.py:12"})
    decisions.read(result, args, kwargs)     # after aten::_local_scalar_dense: .item(), bool(), int(), float()
    decisions.copied(source, target)         # a small copy to the host: .tolist(), .cpu(), .numpy()

"other" is "": what the simulation has; "flip": another value than that; "true", "false": each condition is that; "skip": GradScaler finds each
gradient infinite. "at": only where that line is on the stack.
The notes count what was read: unknown_true, unknown_false (conditions), unknown_values (numbers), drawn_reads (of
these: drawn numbers), other_values and other_integers (given otherwise).
A number that is read in a run with other values knows it, and what it is compared with (compared.py).

A condition of drawn numbers is read as they say, and still counts: another draw may say otherwise.
"""

import os
import sys

AMP = os.path.join("torch", "amp") + os.sep  # its test for infinite gradients
MOST_COPIED = 4096  # elements; longer copies are results, not decisions
OTHER_INTEGER, OTHER_FLOAT = 64, 500.0  # whose exponential, a perplexity, is still a number


def lines_on_stack(frame):
    """"train.py:12" of each frame, the innermost first."""
    while frame is not None:
        yield f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back


class Decisions:
    def __init__(self, run, torch, held, options):
        self.run, self.torch, self.held = run, torch, held
        self.other, self.at = options.get("other", ""), os.path.basename(options.get("at", ""))
        self.was_read = None  # (number that the simulation has, `most` of it) of the last read
        self.comparisons = None  # compared.py, where values are others
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
        return self.other not in ("", "skip") and (not self.at or self.at in lines_on_stack(frame))

    def another(self, value, most):
        """`most`: positions are less than that; None: any number."""
        if isinstance(value, bool):
            return not value if self.other == "flip" else self.other == "true"
        if isinstance(value, int):
            return (OTHER_INTEGER if most is None else min(OTHER_INTEGER, max(most - 1, 0))) if value == 0 else 0
        return OTHER_FLOAT if value == 0 else 0.0

    def note(self, value, truth):
        if truth == self.held.DRAWN and not isinstance(value, bool):  # conditions are tried both ways anyway
            self.count("drawn_reads")
        self.count("unknown_values" if not isinstance(value, bool) else "unknown_true" if value else "unknown_false")

    def note_other(self, before, after):
        if before == after:
            return
        self.count("other_values")
        if isinstance(before, int) and not isinstance(before, bool):
            self.count("other_integers")

    def reading(self, frame):
        """(the program's frame that reads, whether it gets numbers that know what they are compared with)"""
        return (frame, False) if self.comparisons is None else self.comparisons.called_from(frame)

    def give(self, naturals, frame, address, is_watched):
        """What the program gets in place of naturals[0]."""
        value = naturals[0]
        self.note(value, self.truth)
        most = self.sizes.get(address, (0, None))[1]
        given = self.another(value, most) if self.gives_another(frame) else value
        self.note_other(value, given)
        if self.comparisons is not None and not isinstance(value, bool):
            if is_watched:
                self.was_read = (naturals, most)
            elif self.comparisons.is_compared(frame):
                self.comparisons.open_at(frame)
        return given

    def read(self, result, args, _):
        tensor = args[0]
        if not tensor.is_cuda:
            return None
        frame, is_watched = self.reading(sys._getframe(1))
        with self.torch._C.DisableTorchFunction():
            try:
                seen, self.truth = self.held.seen(tensor)
            except Exception:
                return None
            if self.truth == self.held.KNOWN or self.is_sizing(frame):
                return None
            value = seen.item()
        if AMP in frame.f_code.co_filename:
            return self.overflows(value)
        return (self.give([value], frame, tensor.data_ptr(), is_watched),)

    def overflows(self, value):
        """GradScaler's test for infinite gradients: a step that it leaves out makes no state of an optimizer."""
        self.count("scaler_reads")
        if self.other != "skip":
            return None
        self.run.left_out()
        return (1.0,)

    def copied(self, source, target):
        if not 0 < source.numel() <= MOST_COPIED or source.shape != target.shape:
            return
        frame, is_watched = self.reading(sys._getframe(1))
        seen, self.truth = self.held.seen(source)
        if self.truth == self.held.KNOWN or self.is_sizing(frame):
            return
        naturals = seen.flatten().tolist()
        if isinstance(naturals[0], complex):
            return
        target.copy_(seen)  # drawn numbers may have come after the real copy
        given = self.give(naturals, frame, source.data_ptr(), is_watched)
        if given != naturals[0]:
            target.fill_(given)

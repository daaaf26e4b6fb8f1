# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Peak, end and growth of memory over stretches of steps, handed to sinks."""

import itertools
import sys
import threading

from gpumemshim import _answers, _program
from gpumemshim._annotations import mark, pause
from gpumemshim._attach import begin, mark_moment
from gpumemshim._error import GpumemError

_numbers = itertools.count(1)
LAST_S = 60.0  # how long close() waits for what is still being worked out
MOST_WAITING = 32  # stretches; then they become longer


class StepScalars:
    """Call step(number) at the end of each step.

    every: steps of a stretch. to: sinks, each called with (step, {"gpu0/peak_bytes": ..., "gpu0/end_bytes": ..., "gpu0/grown_bytes": ..., "gpu0/reserved_bytes": ...})
    on a thread of its own, one call after the other; what one raises is printed once, and it is left out from then on. output: the trace, default as `gpumemshim run`.
    optional: do nothing where the recorder is missing, instead of raising GpumemError.

    The first stretch begins when this is made. grown_bytes: what the end of the stretch holds beyond its beginning.
    """

    def __init__(self, every=100, to=(), output=None, optional=False):
        if every < 1:
            raise ValueError(f"every={every}: a stretch has at least one step")
        self.every, self.sinks, self.failed = every, list(to), []
        self.active, self._began_here = True, False
        try:
            self._began_here = begin(output)
        except GpumemError:
            if not optional:
                raise
            self.active = False
        self._number, self._begin, self._steps, self._last = next(_numbers), "", 0, None
        self._waiting, self._wakes, self._is_over = [], threading.Condition(), False
        self._thread = threading.Thread(target=self._work, name="gpumemshim scalars", daemon=True)
        if self.active:
            self._begin = mark_moment(f"scalars {self._number} begins", "scalars")
            self._thread.start()

    def step(self, number):
        """The end of a step; numbers are handed to the sinks as they are."""
        if not self.active:
            return
        self._steps += 1
        self._last = number
        if self._steps % self.every == 0:
            self._end_stretch(number, MOST_WAITING)

    def _end_stretch(self, number, most):
        with self._wakes:
            if len(self._waiting) >= most:
                return
            end = f"scalars {self._number} step {number}"
            mark(end)
            self._waiting.append((number, self._begin, end))
            self._begin, self._last = end, None
            self._wakes.notify()

    def close(self):
        """Ends the last stretch, waits for what is being worked out, and ends the recording if it began here."""
        if not self.active:
            return
        if self._last is not None:
            self._end_stretch(self._last, MOST_WAITING + 1)
        with self._wakes:
            self._is_over = True
            self._wakes.notify()
        self._thread.join(LAST_S)
        if self._thread.is_alive():
            print(f"gpumemshim: {len(self._waiting)} stretches of steps were not worked out in {LAST_S:g} s; the trace has them", file=sys.stderr)
        self.active = False
        if self._began_here:
            pause()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _work(self):
        while True:
            with self._wakes:
                self._wakes.wait_for(lambda: self._waiting or self._is_over)
                if not self._waiting:
                    return
                number, begin, end = self._waiting[0]
            try:
                self._hand_out(number, scalars_of(begin, end))
            except GpumemError as error:
                print(f"gpumemshim: no memory of step {number}: {error}", file=sys.stderr)
            with self._wakes:
                del self._waiting[0]

    def _hand_out(self, number, scalars):
        for sink in list(self.sinks):
            try:
                sink(number, scalars)
            except Exception as error:
                self.sinks.remove(sink)
                self.failed.append(sink)
                print(f"gpumemshim: {sink} is left out from now on: {type(error).__name__}: {error}", file=sys.stderr)


def scalars_of(first, end):
    """{"gpuN/...": bytes} of what happened between two marks of this process."""
    trace = _program.own_trace()
    if trace is None:
        return {}
    found = {}
    for each in _answers.sizes_of(first, [*(["--from", first] if first else []), "--to", end, trace]):
        name = f"gpu{each.device}"
        found.update({f"{name}/peak_bytes": each.peak, f"{name}/end_bytes": each.end, f"{name}/grown_bytes": each.end - each.start, f"{name}/reserved_bytes": each.reserved})
    return found

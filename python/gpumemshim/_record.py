# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Recording a part of a program: `with gpumemshim.record() as recording`, or a decorator."""

import functools
import inspect
import itertools
import os
import pathlib
import sys
import threading

from gpumemshim import _answers, _library, _program
from gpumemshim._annotations import pause
from gpumemshim._attach import begin, mark_moment
from gpumemshim._error import GpumemError
from gpumemshim._tables import human

_numbers = itertools.count(1)
_lock = threading.Lock()
_open = 0  # recordings that are running
_began_here = False  # and the first of them began what would not be recorded otherwise


class Picture(bytes):
    """A PNG."""

    def __repr__(self):
        return f"<PNG of {len(self):,} bytes>"

    def _repr_png_(self):
        return bytes(self)


class Recording:
    """What was recorded between two moments of this process. Its answers may be asked for while it still runs, and afterwards.

        with gpumemshim.record() as recording:
            train()
        print(recording)                       # train: peak 8.11 GiB (+7.64 GiB), left 65 MiB behind; ...
        recording.peak().categories            # {"activation": 5486344192, ...}
        recording.html("report.html")

    name: as it was given. trace: path of the trace; None until something was recorded, as in a program that did not use the GPU. In bytes, of the GPU with
    the largest peak: start_bytes, peak_bytes, end_bytes, what was allocated at its beginning, at most, and at its end.
    """

    def __init__(self, name):
        self.name, self.number = name, next(_numbers)
        self.begin, self.end, self.is_over = mark_moment(f"record {self.number} begins", name), "", False
        self._trace, self._sizes, self._error = None, None, None

    @property
    def trace(self):
        if not self.is_over:
            self._trace = _program.own_trace()
        return self._trace

    def window(self):
        """Arguments by which gpumemshim looks at this part of the trace."""
        trace = self.trace
        if self._error is not None:
            raise self._error
        if trace is None:
            raise GpumemError(f"{self.name}: nothing was recorded. Was GPU memory used inside it?")
        return [*(["--from", self.begin] if self.begin else []), *(["--to", self.end] if self.end else []), trace]

    def report(self, *, device=None):
        """As gpumemshim.report(), of this part."""
        return _answers.report(self, device=device)

    def peak(self, *, device=None, top=20):
        """As gpumemshim.peak(), of this part: the Peak inside it, with all that was alive then, also what is older."""
        return _answers.peak(self, device=device, top=top)

    def changes(self, *, device=None):
        """What `gpumemshim diff` says of its end against its beginning: what this part left behind, by category, module and line."""
        *_, trace = self.window()
        return _program.ask("diff", *_answers.flags(device, self.begin or "0s", self.end or "end"), trace)

    def html(self, output="report.html"):
        """Writes the page of `gpumemshim html` of this part, and returns its path."""
        return _answers.html(self, output)

    def picture(self, kind="timeline"):
        """The picture of `gpumemshim plot KIND` of this part, as bytes of a PNG, which a notebook shows as a picture."""
        return Picture(_program.run("plot", kind, "-o", "-", *self.window(), text=False))

    @property
    def sizes(self):
        """(start, peak, end) in bytes; all 0 where nothing was recorded."""
        if self._sizes is None or not self.is_over:
            self._sizes = self.measure()
        return self._sizes

    def measure(self):
        if self._error is not None:
            raise self._error
        if self.trace is None:
            return 0, 0, 0
        devices = _answers.sizes_of(self.begin, self.window())
        most = max(devices, key=lambda each: each.total_peak, default=None)
        return (most.start, most.peak, most.end) if most is not None else (0, 0, 0)

    start_bytes = property(lambda self: self.sizes[0])
    peak_bytes = property(lambda self: self.sizes[1])
    end_bytes = property(lambda self: self.sizes[2])
    grown_bytes = property(lambda self: self.sizes[2] - self.sizes[0], doc="What is held at its end beyond what was held at its beginning.")

    def __str__(self):
        start, peak, end = self.sizes
        if peak == 0:
            return f"{self.name}: no GPU memory was used"
        left = end - start
        after = "left nothing behind" if left == 0 else f"left {human(left)} behind" if left > 0 else f"freed {human(-left)} more than it took"
        if not self.is_over:
            after = f"holds {human(end)} now"
        return f"{self.name}: peak {human(peak)} ({human(start)} when it began), {after}; {self.trace}"

    __repr__ = __str__

    def _repr_html_(self):
        from gpumemshim import _notebook

        return _notebook.Shown(self).page_of()


class record:  # noqa: N801 (used as a function)
    """Records GPU memory while its body runs, in a program that was started with or without the recorder.

        with gpumemshim.record("train.gmtrace") as recording:
            train()
        print(recording)

        @gpumemshim.record(tell=print)
        def evaluate(model): ...

    output: path of the trace; default as `gpumemshim run`. If this process is recorded into another file, that goes on, and what was recorded so far is copied
    to `output` at the end. name: shown in timelines; default: the function's name, or "record". tell: called with the Recording at the end. optional: run
    the body unrecorded where the recorder is not to be had; without it that is a GpumemError. keep: go on recording afterwards, so that a later record()
    knows who allocated what it finds. The recorder is found as attach() finds it, `gpumemshim` on PATH.

    What a recorder that came late cannot know: stacks of memory that was allocated before.
    """

    def __init__(self, output=None, *, name=None, tell=None, optional=False, keep=False):
        self.output = None if output is None else pathlib.Path(output).absolute()
        self.name, self.tell, self.optional = name or "record", tell, optional
        self.was_named, self.keep = name is not None, keep
        self._running = []  # (thread, Recording): one object may decorate a function that several threads call

    def __enter__(self):
        global _open, _began_here
        with _lock:
            try:
                if _open == 0:
                    _began_here = begin(self.output)
                elif _library.find() is None:
                    begin(self.output)
            except GpumemError:
                if not self.optional:
                    raise
            _open += 1
        recording = Recording(self.name)
        with _lock:
            self._running.append((threading.get_ident(), recording))
        return recording

    def __exit__(self, *_):
        global _open
        recording = self._pop()
        recording.end = mark_moment(f"record {recording.number} ends", self.name)
        try:
            trace = recording.trace
        except GpumemError as error:  # what is asked of the recording will say so; the program goes on
            trace, recording._error = None, error
        recording.is_over = True
        with _lock:
            _open -= 1
            if _open == 0 and _began_here and not self.keep:
                pause()
        if trace and self.output and not same_file(trace, self.output):
            try:
                self.output.parent.mkdir(parents=True, exist_ok=True)
                _program.run("ctl", str(os.getpid()), "dump", "--force", "-o", self.output)
                recording._trace = str(self.output)
            except (GpumemError, OSError) as error:
                print(f"gpumemshim: no copy in {self.output}: {error}. The trace is {trace}", file=sys.stderr)
        if self.tell is not None:
            self.tell(recording)

    def _pop(self):
        """The innermost recording of this thread; of any, where another thread ends what one began."""
        with _lock:
            own = [place for place, (thread, _) in enumerate(self._running) if thread == threading.get_ident()]
            return self._running.pop(own[-1] if own else -1)[1]

    def __call__(self, function):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError("gpumemshim.record cannot decorate a generator or an async function. Write `with gpumemshim.record(...)` in it")
        if not self.was_named:
            self.name = getattr(function, "__qualname__", self.name)

        @functools.wraps(function)
        def recorded(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return recorded


def same_file(one, other):
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False

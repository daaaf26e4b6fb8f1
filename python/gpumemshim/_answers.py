# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a trace says, as plain data: each function asks `gpumemshim` and returns what docs/json.md describes, so numbers are those of the command line.

Everywhere `trace` is a path of a trace, a folder of traces, PyTorch's snapshot (.pickle), or a Recording. Without one it is what this process has
recorded so far, and where nothing is recorded here the newest *.gmtrace of the working directory. GpumemError where there is no answer.
"""

import collections
import os
import pathlib
import typing

from gpumemshim import _program
from gpumemshim._cells import as_cells
from gpumemshim._error import GpumemError
from gpumemshim._tables import Table, human


class Peak(typing.NamedTuple):
    """The moment at which a GPU's memory was highest: PyTorch's allocated bytes where the program uses PyTorch, else all that was allocated.

    categories: bytes by what they are for ("parameter", "activation", ...); with "allocator_overhead", what PyTorch holds beyond its tensors, they add
    up to all memory of the program on that GPU. lines, modules: Tables with `bytes`, largest first.
    """

    device: int
    bytes: int
    reserved_bytes: int  # what PyTorch has from CUDA at that moment
    time_s: float  # since the first event of the trace
    step: typing.Optional[int]
    categories: dict
    lines: Table
    modules: Table

    def __str__(self):
        top = f", mostly {max(self.categories, key=self.categories.get).replace('_', ' ')}" if self.categories else ""
        return f"{human(self.bytes)} on GPU {self.device} at {self.time_s:.3f} s{f', step {self.step}' if self.step else ''}{top}"


def where(trace):
    """Arguments that name a trace to gpumemshim."""
    if hasattr(trace, "window"):  # a Recording
        return trace.window()
    if trace is not None:
        return [os.fspath(trace)]
    own = _program.own_trace()
    return [own] if own else []


def flags(device=None, start=None, end=None, top=None):
    """start, end: a number is seconds, a text as the command line takes it ("step 10", "1.5s", a mark)."""
    said = []
    for name, value in (("--device", device), ("--from", start), ("--to", end), ("--top", top)):
        if value is not None:
            said += [name, f"{value}s" if isinstance(value, float) else str(value)]
    return said


class Sizes(typing.NamedTuple):
    """Memory of one GPU in a part of a trace, in bytes: PyTorch's allocated ones where it uses PyTorch, else all that CUDA has."""

    device: int
    start: int
    peak: int
    end: int
    reserved: int  # at its end
    total_start: int  # all that CUDA has for this process, reserved included
    total_peak: int
    total_end: int


def sizes_of(begin, window):
    """[Sizes, ...] of each GPU. begin: the mark at which the part begins, or "", the trace's beginning; window: arguments that name it to gpumemshim, the trace
    last."""
    found = []
    for device in _program.ask("report", "--top", 1, *window)["devices"]:
        peak, end = device["peak"], device["end"]
        key = "allocated_bytes" if peak["allocated_bytes"] else "total_bytes"
        start = _program.ask("at", begin, "--device", device["device"], "--top", 1, window[-1])["values"] if begin else {}
        totals = (start.get("total_bytes", 0), peak["total_bytes"], end["total_bytes"])
        found.append(Sizes(device["device"], start.get(key, 0), peak[key], end[key], end["reserved_bytes"], *totals))
    return found


def report(trace=None, *, device=None, start=None, end=None):
    """All that `gpumemshim report --json` says, as a dict: verdict, peak, timeline, leaks, fragmentation, losses.

    device: only this GPU. start, end: only what happened between these moments, in seconds since the first event (float), or as text: "step 10", a mark.

        gpumemshim.report("run.gmtrace")["verdict"]["mostly"]
        # 'activations (63 % of the peak); top line train.py:91 compute_loss, 3.83 GiB'
    """
    return _program.ask("report", *flags(device, start, end), *where(trace))


def peak(trace=None, *, device=None, start=None, end=None, top=20):
    """The Peak of a trace, on the GPU with the largest one unless `device` says which. top: longest list of lines and of modules; 0: all.

        at = gpumemshim.peak("run.gmtrace")
        print(at.bytes, at.categories["activation"], at.lines[0]["line"])
    """
    answer = _program.ask("at", "peak", *flags(device, start, end, 0), *where(trace))
    by_line = collections.Counter()
    counts = collections.Counter()
    for stack in answer["stacks"]:
        line = as_cells(stack["site"])
        by_line[line] += stack["bytes"]
        counts[line] += stack["count"]
    lines = Table({"bytes": size, "blocks": counts[site], "line": site} for site, size in sorted(by_line.items(), key=lambda row: (-row[1], row[0] or "")))
    modules = Table({"bytes": row["bytes"], "module": row["fqn"], "class": row["class"], **row["by_category"]} for row in answer["modules"])
    values = answer["values"]
    size = values["allocated_bytes"] or values["total_bytes"]
    categories = {name: held for name, held in answer["categories"].items() if held}
    shown = top or None
    return Peak(answer["device"], size, values["reserved_bytes"], answer["time_ns"] / 1e9, answer["step"], categories, Table(lines[:shown]), Table(modules[:shown]))


def steps(trace=None, *, device=None):
    """A Table with a row for each training step: `step`, `start_bytes`, `peak_bytes`, `end_bytes`, `growth_bytes`, `start_ns`, `end_ns`, ...

        [row["peak_bytes"] for row in gpumemshim.steps("run.gmtrace")]
    """
    answer = _program.ask("steps", *flags(device=device, top=0), *where(trace))
    return Table({key: value for key, value in row.items() if not isinstance(value, (dict, list))} for row in answer["steps"])


def leaks(trace=None, *, device=None):
    """What `gpumemshim leaks --json` says, as a dict: which lines keep more from step to step, and what was never freed."""
    return _program.ask("leaks", *flags(device), *where(trace))


def diff(a, b, *, device=None):
    """Why trace `b` needs more or less than `a`, as `gpumemshim diff --json` says it: `headline` in one sentence, `delta_bytes`, differences by category,
    module, line.

        gpumemshim.diff("yesterday.gmtrace", "today.gmtrace")["headline"]
    """
    for each in (a, b):
        if hasattr(each, "window"):
            raise GpumemError(f"{each.name}: gpumemshim compares whole traces or moments. Use .changes(), or record each run into a trace of its own")
    return _program.ask("diff", *flags(device), *map(os.fspath, (a, b)))


def sql(query, *traces):
    """The rows of a query over traces, as a Table; docs/sql.md has every table and column. Needs DuckDB's library, as `gpumemshim sql` does.

        gpumemshim.sql("SELECT category, sum(size) AS bytes FROM live_at('peak') GROUP BY ALL", "run.gmtrace")
    """
    places = [os.fspath(each.trace if hasattr(each, "window") else each) for each in traces] or where(None)
    return Table(_program.ask("sql", *places, query)["rows"])


def html(trace=None, output="report.html"):
    """Writes the page of `gpumemshim html` of a trace, and returns its path. A file that is there is replaced."""
    path = pathlib.Path(output)
    _program.run("html", "-o", path, *where(trace))
    return path

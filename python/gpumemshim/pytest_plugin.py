# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""GPU memory of tests: `pytest --gpumemshim` lists the tests that used most, and two markers limit what a test may use and leave behind.

    @pytest.mark.limit_gpu_memory("2 GB")       # at most so much at once, beyond what was there when the test's body began; on each GPU
    @pytest.mark.limit_gpu_leaks("1 MB")        # at most so much is left behind when the body is over
    def test_training(): ...

Markers count without --gpumemshim, too. Fixtures are outside: what they allocate was there when the body began. Sizes have binary units. Where the recorder
cannot be had, --gpumemshim is an error, and a marker a warning: a limit that was not checked is said to be so.
"""

import gc
import sys
import tempfile
import warnings

import pytest

from gpumemshim import _program
from gpumemshim._annotations import pause, stage
from gpumemshim._attach import NOT_FOUND, begin
from gpumemshim._library import find
from gpumemshim._error import GpumemError
from gpumemshim._record import record
from gpumemshim._tables import human, parse_size

MARKERS = {
    "limit_gpu_memory": "limit_gpu_memory(size): the test's body may allocate at most this much GPU memory at once, beyond what was there before",
    "limit_gpu_leaks": "limit_gpu_leaks(size): the test's body may leave at most this much GPU memory behind",
}
LINES = 5


def pytest_addoption(parser):
    group = parser.getgroup("gpumemshim", "GPU memory (gpumemshim)")
    group.addoption("--gpumemshim", action="store_true", help="record GPU memory, and list the tests that used most of it")
    group.addoption("--gpumemshim-output", metavar="FILE", help="the trace, for `gpumemshim html` and all other commands (default: gpumemshim.pytest.PID.gmtrace)")
    group.addoption("--gpumemshim-top", type=int, default=10, metavar="N", help="how many tests are listed; 0: all (10)")


def pytest_configure(config):
    for text in MARKERS.values():
        config.addinivalue_line("markers", text)
    plugin = Plugin(config)
    config.pluginmanager.register(plugin, "gpumemshim-tests")
    if config.getoption("--gpumemshim"):
        plugin.begin()


class Plugin:
    """The hooks of one session; with xdist one of each worker and one of the session that gathers."""

    def __init__(self, config):
        self.config, self.rows, self.traces, self.scratch = config, [], [], None
        self.warned = set()
        self.lists = config.getoption("--gpumemshim")
        self.gathers = bool(getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput"))

    def begin(self):
        if self.gathers:
            return
        try:
            _program.find()
            begin(self.output())
        except GpumemError as error:
            raise pytest.UsageError(f"--gpumemshim: {error}") from error

    def output(self):
        """Where the trace goes; without --gpumemshim, where it is not asked for, to a folder that goes away."""
        if not self.lists:
            if self.scratch is None:
                self.scratch = tempfile.TemporaryDirectory(prefix="gpumemshim-pytest-", ignore_cleanup_errors=True) if sys.version_info >= (3, 10) else tempfile.TemporaryDirectory(prefix="gpumemshim-pytest-")
            return f"{self.scratch.name}/limits.gmtrace"
        output, worker = self.config.getoption("--gpumemshim-output"), getattr(self.config, "workerinput", {}).get("workerid")
        return f"{output[:-8] if output.endswith('.gmtrace') else output}.{worker}.gmtrace" if output and worker else output

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        limits = limits_of(item)
        if not limits and not self.lists:
            yield
            return
        recorder = record(self.output(), name=item.nodeid, optional=True, keep=True)
        with stage(item.nodeid):
            recording = recorder.__enter__()
            try:
                yield
            finally:
                if "limit_gpu_leaks" in limits:
                    gc.collect()
                recorder.__exit__(None, None, None)
        if limits:
            item.stash[BROKEN] = broken(limits, recording)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        found, report = item.stash.get(BROKEN, None), outcome.get_result()
        if call.when != "call" or found is None:
            return
        if found.unchecked:
            if found.unchecked not in self.warned:  # of the rest it says nothing new
                warnings.warn(pytest.PytestWarning(f"GPU memory of {item.nodeid}, and others like it, was not checked: {found.unchecked}"), stacklevel=1)
            self.warned.add(found.unchecked)
        elif found.texts and report.outcome == "passed":
            report.outcome, report.longrepr = "failed", "\n".join(found.texts)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self):
        if self.scratch is not None:
            pause()
            self.scratch.cleanup()
        if not self.lists or self.gathers:
            return
        try:
            trace = _program.own_trace()
            if trace:
                self.rows, self.traces = rows_of(trace), [trace]
        except GpumemError as error:
            self.traces = [f"(no answer: {error})"]
        pause()
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["gpumemshim"] = (self.rows, self.traces)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        rows, traces = getattr(node, "workeroutput", {}).get("gpumemshim", ([], []))
        self.rows += rows
        self.traces += traces

    def pytest_terminal_summary(self, terminalreporter):
        if not self.lists:
            return
        terminalreporter.section("GPU memory")
        if not self.rows:
            terminalreporter.write_line("no test used GPU memory" if not self.traces else f"no test is in {', '.join(self.traces)}")
            return
        rows = sorted(self.rows, key=lambda row: -row[1])
        top = self.config.getoption("--gpumemshim-top") or len(rows)
        terminalreporter.write_line(f"{'used at most':>12}  {'left behind':>11}  test")
        for name, used, left in rows[:top]:
            terminalreporter.write_line(f"{human(used):>12}  {human(left) if left else '-':>11}  {name}")
        if len(rows) > top:
            terminalreporter.write_line(f"... {len(rows) - top} more (--gpumemshim-top 0)")
        for trace in self.traces:
            terminalreporter.write_line(f"next: gpumemshim html {trace}")


class Broken:
    """What a test's limits came to: sentences of those that were broken, or why they could not be checked."""

    def __init__(self, texts=(), unchecked=""):
        self.texts, self.unchecked = list(texts), unchecked


BROKEN = pytest.StashKey()


def limits_of(item):
    """{marker: bytes} of a test; a marker without a size that can be read fails the test."""
    limits = {}
    for name in MARKERS:
        marker = item.get_closest_marker(name)
        if marker is None:
            continue
        if len(marker.args) != 1 or marker.kwargs:
            pytest.fail(f"{name} takes one size, as in @pytest.mark.{name}('2 GB')", pytrace=False)
        why = ""
        try:
            limits[name] = parse_size(marker.args[0])
        except ValueError as error:
            why = f"{name}: {error}"
        if why:
            pytest.fail(why, pytrace=False)
    return limits


def broken(limits, recording):
    """Holds a recorded body against its limits."""
    if find() is None:
        return Broken(unchecked=NOT_FOUND)
    try:
        start, peak, end = recording.sizes
        texts = []
        if peak - start > limits.get("limit_gpu_memory", peak):
            texts += [f"GPU memory: {human(peak - start)} at once, more than the limit of {human(limits['limit_gpu_memory'])}"]
            texts += [f"  {human(row['bytes']):>9}  {row['line']}" for row in recording.peak(top=LINES).lines]
        if "limit_gpu_leaks" in limits and end - start > limits["limit_gpu_leaks"]:
            texts += [f"GPU memory: {human(end - start)} left behind, more than the limit of {human(limits['limit_gpu_leaks'])}"]
            texts += [f"  {recording.changes()['cause']['text']}"]
        return Broken(texts)
    except GpumemError as error:
        return Broken(unchecked=str(error))


def rows_of(trace):
    """(test, bytes at most beyond its beginning, bytes left behind) of each stage that is a test."""
    rows = []
    for row in _program.ask("stages", trace)["stages"]:
        if row["derived"] is None and "::" in row["stage"] and row["peak_bytes"] > row["start_bytes"]:
            rows.append((row["stage"], row["peak_bytes"] - row["start_bytes"], row["growth_bytes"]))
    return rows

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Being called when this program is about to run out of GPU memory.

    gpumemshim.on_forecast(lambda forecast: print(forecast.sentence))

`gpumemshim forecast --watch` runs beside the program and reads its trace; a thread here waits for what it says. A callback runs in a thread of its own: one that
is slow, raises or never returns delays no step, no later warning to others, and not the program's end.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
import typing

from gpumemshim import _library, _program
from gpumemshim._annotations import mark
from gpumemshim._error import GpumemError

RISKS = ("medium", "high", "critical")


class Forecast(typing.NamedTuple):
    """A warning: at this rate memory runs out. Seconds from now; latest_s is None where it may as well not."""

    risk: str  # "medium", "high" or "critical"
    device: int
    sentence: str
    cause: str  # the line that grows; "" where none does
    first: bool  # the first warning of this program
    step: int  # the last one that is complete
    earliest_s: float
    likely_s: float
    latest_s: typing.Optional[float]
    bytes_per_step: float
    sure: typing.Optional[float] = None  # of 1: how many of such ranges hold; None where there is no latest_s


class ForecastWatch:
    """What on_forecast returns: stop() ends it. `failures`: texts, one for each call that did not go well."""

    def __init__(self, callback, process, timeout_s):
        self.failures = []
        self._callback, self._process, self._timeout_s, self._pid = callback, process, timeout_s, os.getpid()
        self._call = None  # the thread in which the callback runs
        if process is not None:
            threading.Thread(target=self._listen, name="gpumemshim-forecast", daemon=True).start()
            atexit.register(self.stop)

    def stop(self):
        """No callback is called any more; one that runs is not waited for. In a forked child it does nothing."""
        if self._process is None or os.getpid() != self._pid:
            return
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        process.terminate()
        process.wait()

    def _listen(self):
        process = self._process
        for line in process.stdout:
            said = json.loads(line)
            if said["event"] == "warning" and self._process is not None:
                self._warn(forecast_of(said))
        process.stdout.close()
        process.wait()

    def _warn(self, forecast):
        if self._call is not None and self._call.is_alive():
            self._report("not called: the one before still runs")
            return
        self._call = threading.Thread(target=self._run, args=(forecast,), name="gpumemshim-callback", daemon=True)
        self._call.start()
        timer = threading.Timer(self._timeout_s, self._look_at, args=(self._call,))
        timer.daemon = True
        timer.start()

    def _run(self, forecast):
        try:
            self._callback(forecast)
        except BaseException as error:  # SystemExit, too: it would end this thread alone, and silently
            self._report(f"{type(error).__name__}: {error}")

    def _look_at(self, call):
        if call.is_alive():
            self._report(f"still runs after {self._timeout_s:g} s")

    def _report(self, text):
        name = getattr(self._callback, "__qualname__", type(self._callback).__qualname__)
        self.failures.append(text)
        mark(f"forecast callback failed (python {name}: {text})")
        try:
            print(f"gpumemshim: forecast callback failed: {name}: {text}", file=sys.stderr)
        except (AttributeError, OSError, ValueError):  # no standard error, or a closed one
            pass


def on_forecast(callback, *, risk="medium", interval=1.0, pause=600.0, timeout=30.0):
    """`callback` is called with a Forecast when memory runs out at this rate with at least this risk: the first time, when the risk becomes higher, and then
    every `pause` seconds. `interval`: seconds between looks. A call that takes longer than `timeout` seconds is reported; Python cannot end it.

        def warn(forecast):
            save_checkpoint.set()          # an Event that the training loop looks at

        gpumemshim.on_forecast(warn, risk="high")

    Without the recorder nothing happens. GpumemError where the program `gpumemshim` is missing.
    """
    if risk not in RISKS:
        raise ValueError(f"risk is one of {', '.join(RISKS)}, not {risk!r}")
    if _library.find() is None:
        return ForecastWatch(callback, None, timeout)
    command = [_program.find(), "forecast", "--watch", str(os.getpid()), "--json", "--risk", risk, "--interval", str(interval), "--pause", str(pause)]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_program.environment(), start_new_session=True, text=True, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise GpumemError(f"gpumemshim could not be started: {error}") from error
    return ForecastWatch(callback, process, timeout)


def forecast_of(said):
    """Of a line of `gpumemshim forecast --watch --json`."""
    step_s = said["step_ns"] / 1e9
    latest = said["latest_steps"]
    return Forecast(
        said["risk"],
        said["device"],
        said["sentence"],
        said["cause"],
        said["first"],
        said["last_step"],
        said["earliest_steps"] * step_s,
        said["likely_steps"] * step_s,
        None if latest is None else latest * step_s,
        said["bytes_per_step"],
        said.get("range_share"),
    )

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The file and its analysis: bytes an event, and how long the whole report takes."""

import json
import time

import processes


def measure(setup, trace, rounds):
    command = [setup.gpumem, "report", "--json", trace]
    times, answer = [], None
    for _ in range(rounds):
        started = time.perf_counter()
        answer = json.loads(processes.run(command))
        times.append(time.perf_counter() - started)
    events = sum(answer["events"].get(layer, 0) for layer in ("torch", "runtime", "driver"))
    if not events:
        raise processes.Failure(f"{trace} holds no events")
    # What tells where tensors lie, what autograd keeps and when a step ends are events too, if not of memory.
    rows = sum(json.loads(processes.run([setup.gpumem, "info", "--json", trace]))["events"]["by_kind"].values())
    return {
        "events": events,
        "rows": rows,
        "trace_bytes": trace.stat().st_size,
        "bytes_an_event": trace.stat().st_size / rows,
        "report_s": processes.spread(times),
        "report_events_per_s": events / processes.median(times),
    }


def replay(setup):
    """What bench/replay's program says last: reading and replaying 10 M events, compressed. None where it is not built."""
    program = setup.build / "bin" / "replay_bench"
    return processes.run_json([program]) if program.exists() else None

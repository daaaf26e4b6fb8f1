# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the recorder wrote of a re-run, held against the history of a real GPU.

    compare(real_events, real_blocks, window(gpumem, "run.gmtrace"))   # {"identical": True, "events": 3408, ...}

The recorder hooks PyTorch's allocator where it reports to the profiler and CUDA where memory is asked for. So of a history's events it has alloc and
free_requested with block sizes (a request rounded to 512 bytes, up to 1 MiB more where a remainder was too small to split off), and segments as
cudaMalloc and cudaFree, or as mapped physical memory where segments are expandable. Streams and free_completed are no part of a trace.
"""

import json
import subprocess

ROUNDING = 512
EXCESS = 1 << 20
KINDS = {"alloc": "alloc", "free_requested": "free", "segment_alloc": "segment_alloc", "segment_free": "segment_free", "oom": "oom"}
MAPPED = ("segment_map", "segment_unmap")


def rounded(size):
    return max(ROUNDING, -(-size // ROUNDING) * ROUNDING)


def all_events(gpumem, trace):
    lines = subprocess.run([gpumem, "export", "events", "--json", str(trace)], capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def window(gpumem, trace):
    """The trace's events between its last mark but one and its last: in_process.py sets them where the program's own history begins and ends."""
    events = all_events(gpumem, trace)
    marks = [at for at, event in enumerate(events) if event["kind"] == "mark" and int(event["handle"], 16) == 0]
    if len(marks) < 2:
        raise ValueError(f"{trace} has {len(marks)} marks of a history's begin and end")
    return events[marks[-2] + 1 : marks[-1]]


def at_the_end(gpumem, trace, moment="mark:history ends", device=0):
    """(allocated, reserved) bytes at the end of the history, as the analyzer says."""
    done = subprocess.run([gpumem, "at", moment, "--json", "--device", str(device), str(trace)], capture_output=True, text=True, check=True)
    values = json.loads(done.stdout)["values"]
    return values["allocated_bytes"], values["reserved_bytes"]


def of_history(events, blocks):
    """[(kind, bytes, block)] as a trace would have it; segments that are mapped piecemeal left out."""
    return [(KINDS[kind], size, block) for (kind, size, _), block in zip(events, blocks) if kind in KINDS]


def of_trace(events, device=0):
    found, live, made = [], {}, 0
    for event in events:
        if event["device"] != device or event["memory"] != "device":
            continue
        kind, size, address = event["kind"], event["size_bytes"], event["address"]
        if event["layer"] == "torch":
            if kind == "alloc":
                found.append(("alloc", size, made))
                live[address] = made
                made += 1
            elif kind == "free":
                found.append(("free", size, live.pop(address, -1)))
            elif kind == "alloc_failed":
                found.append(("oom", size, -1))
        elif event["layer"] == "runtime" and kind in ("alloc", "free"):
            found.append((f"segment_{kind}", size, -1))
    return found


def same(real, ours):
    kind, size, block = real
    if kind != ours[0] or block != ours[2]:
        return False
    if kind in ("segment_alloc", "segment_free"):
        return size == ours[1]
    return rounded(size) <= ours[1] <= rounded(size) + EXCESS


def mapped(events, device=0):
    """(bytes mapped, bytes unmapped) of expandable segments in a trace."""
    of = {"map": 0, "unmap": 0}
    for event in events:
        if event["layer"] == "driver" and event["device"] == device and event["kind"] in of:
            of[event["kind"]] += event["size_bytes"]
    return of["map"], of["unmap"]


def mapped_in_history(events):
    return tuple(sum(size for kind, size, _ in events if kind == wanted) for wanted in MAPPED)


def compare(real_events, real_blocks, events, device=0):
    """Whether the trace tells the same: kinds, rounded sizes, segments, and which block each free ends. The order of frees in a run may differ."""
    real, ours = of_history(real_events, real_blocks), of_trace(events, device)
    equal = sum(same(a, b) for a, b in zip(real, ours))
    count = len(real) == len(ours)
    sorted_equal = sum(same(a, b) for a, b in zip(in_order(real), in_order(ours)))
    return {
        "events": len(real),
        "events_ours": len(ours),
        "equal": equal,
        "identical": count and equal == len(real),
        "identical_but_order_of_frees": count and sorted_equal == len(real),
        "mapped_equal": mapped_in_history(real_events) == mapped(events, device),
    }


def in_order(events):
    """Each unbroken run of frees sorted by the block that ends."""
    found, run = [], []
    for event in events:
        if event[0] == "free":
            run.append(event)
            continue
        found += sorted(run, key=lambda free: (free[2], rounded(free[1])))
        run = []
        found.append(event)
    return found + sorted(run, key=lambda free: (free[2], rounded(free[1])))

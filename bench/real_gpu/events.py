# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A memory history as numbers, and the comparison of two of them.

    real = Device.of_snapshot(snapshot_file.load("real.pickle"), 0)
    compare(real, Device.of_snapshot(ours, 0))     # {"identical": True, "peak_equal": True, "segments_equal": True, ...}

An event is (kind, bytes, stream): the words and the requested sizes are PyTorch's, streams are numbered in the order in which they come. A free
also says which allocation of this history it ends, or that the block is older (-1).
"""

import collections
import dataclasses
import difflib

import snapshot_file

FREES = ("free_requested", "free_completed")
REQUESTED, COMPLETED = FREES


@dataclasses.dataclass
class Device:
    """What one device's history tells. `events`: [(kind, bytes, stream)]; `blocks`: for each event the number of the allocation that it makes or
    ends, -1 for an older block and for events that are no block's; `segments`: sizes of the final segments, sorted, with their kind; `layout`: for
    each final segment its size and the state and size of each of its blocks, sorted; `allocated`: bytes of blocks in use at the end."""

    events: list
    blocks: list
    segments: list
    layout: list
    allocated: int = 0

    @classmethod
    def of_snapshot(cls, snapshot, device):
        entries = snapshot_file.entries(snapshot, device)
        segments = snapshot_file.segments(snapshot, device)
        events, blocks = of_entries(entries)
        return cls(
            events,
            blocks,
            sorted((segment["total_size"], segment["segment_type"]) for segment in segments),
            sorted((segment["total_size"], tuple((block["size"], block["state"].startswith("active")) for block in segment["blocks"])) for segment in segments),
            sum(segment["allocated_size"] for segment in segments),
        )


def of_entries(entries):
    """(events, blocks) of PyTorch's entries."""
    streams, live, events, blocks, made = {}, {}, [], [], 0
    for entry in entries:
        kind = entry["action"]
        address = entry.get("addr", 0)
        events.append((kind, entry["size"], streams.setdefault(entry.get("stream", 0), len(streams))))
        if kind == "alloc":
            live[address] = made
            blocks.append(made)
            made += 1
        elif kind in FREES:
            blocks.append(live.get(address, -1))
            if kind == COMPLETED:
                live.pop(address, None)
        else:
            blocks.append(-1)
    return events, blocks


def peak_above_start(events):
    """The most bytes that were requested and not yet given back, above those at the beginning."""
    now = most = 0
    for kind, size, _ in events:
        if kind == "alloc":
            now += size
            most = max(most, now)
        elif kind == COMPLETED:
            now -= size
    return most


def without_order_of_frees(events):
    """The events with each unbroken run of frees sorted: how a container is emptied may depend on addresses of the host."""
    found, run = [], []
    for event in events:
        if event[0] in FREES:
            run.append(event)
            continue
        found += sorted(run)
        run = []
        found.append(event)
    return found + sorted(run)


def differences(first, second):
    """(equal events, [what stands at `at` in the first history and what in the second]) by the longest common sequences."""
    if first == second:
        return len(first), []
    equal, runs = 0, []
    for tag, start, end, from_, to in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag == "equal":
            equal += end - start
        else:
            runs.append({"at": start, "real": first[start:end], "ours": second[from_:to]})
    return equal, runs


def compare(real, ours):
    """What is equal. `equal` counts events that are equal in order; `runs` are the differences, the order of frees not being one."""
    identical = real.events == ours.events
    sorted_real, sorted_ours = without_order_of_frees(real.events), without_order_of_frees(ours.events)
    _, runs = differences(sorted_real, sorted_ours)
    return {
        "events": len(real.events),
        "events_ours": len(ours.events),
        "equal": len(real.events) if identical else sum((collections.Counter(real.events) & collections.Counter(ours.events)).values()),
        "identical": identical,
        "identical_but_order_of_frees": sorted_real == sorted_ours,
        "same_blocks_freed": real.blocks == ours.blocks,
        "allocated": real.allocated,
        "peak": peak_above_start(real.events),
        "peak_ours": peak_above_start(ours.events),
        "peak_equal": peak_above_start(real.events) == peak_above_start(ours.events),
        "segments": len(real.segments),
        "segments_ours": len(ours.segments),
        "segments_equal": real.segments == ours.segments,
        "reserved": sum(size for size, _ in real.segments),
        "reserved_ours": sum(size for size, _ in ours.segments),
        "layout_equal": real.layout == ours.layout,
        "runs": runs[:20],
    }

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Checks of snapshots, of the history that PyTorch itself records, and of its profiler (see memory_checks.py)."""

import collections
import contextlib
import os
import pickle
import tempfile

import torch
from memory_checks_stats import MIB, blob
from torch import cuda

PLAIN = ("segment_type", "total_size", "allocated_size", "active_size", "requested_size", "is_expandable")


@contextlib.contextmanager
def history(*arguments, **options):
    """Recorded by PyTorch inside of the block; as it was before, afterwards."""
    cuda.memory._record_memory_history(*arguments, **options)
    try:
        yield
    finally:
        again = "all" if os.environ.get("MEMORY_CHECKS_HISTORY") else None
        cuda.memory._record_memory_history(again, stacks="python")


def segments():
    found = [[segment.get(name) for name in PLAIN] + [[(block["size"], block["state"]) for block in segment["blocks"]]] for segment in cuda.memory_snapshot()]
    return sorted(found, key=str)


def entries(limit=200):
    traces = cuda.memory._snapshot()["device_traces"]
    return [(entry["action"], entry["size"]) for entry in traces[0][-limit:]] if traces else []


def check_segments_of_nothing():
    return segments()


def check_segments_of_many_sizes():
    kept = [blob(size) for size in (100, 5000, MIB, 3 * MIB, 12 * MIB, 25 * MIB)]
    return segments(), len(kept)


def check_segments_with_holes():
    kept = [blob(2 * MIB) for _ in range(9)]
    del kept[1::2]
    return segments(), len(kept)


def check_blocks_that_wait_for_a_stream():
    side = cuda.Stream()
    kept = blob(4 * MIB)
    with cuda.stream(side):
        kept.record_stream(side)
    del kept
    return [[block[1] for block in segment[-1]] for segment in segments()]


def check_names_in_a_segment():
    kept = blob(MIB)
    found = cuda.memory_snapshot()
    return sorted({name for segment in found for name in segment}), sorted({name for segment in found for block in segment["blocks"] for name in block}), kept.nbytes


def check_addresses_fit():
    """Blocks lie in their segments without a gap, and a tensor's memory is one of them."""
    kept = [blob(3 * MIB) for _ in range(5)]
    starts, gaps = {}, 0
    for segment in cuda.memory_snapshot():
        at = segment["address"]
        for block in segment["blocks"]:
            gaps += block.get("address", at) != at
            starts[at] = block["state"]
            at += block["size"]
        gaps += at != segment["address"] + segment["total_size"]
    return gaps, [starts.get(tensor.data_ptr()) for tensor in kept]


def check_streams_of_segments():
    streams = [cuda.Stream(), cuda.Stream()]
    kept = [blob(MIB)]
    for stream in streams:
        with cuda.stream(stream):
            kept.append(blob(MIB))
    names = {0: "default", **{stream.cuda_stream: f"stream {i}" for i, stream in enumerate(streams)}}
    return sorted(names.get(segment["stream"], "other") for segment in cuda.memory_snapshot()), len(kept)


def check_names_of_a_snapshot():
    found = cuda.memory._snapshot()
    return sorted(found), sorted(found.get("allocator_settings", {}).items(), key=str)


def check_actions_of_history():
    with history("all", stacks="python"):
        kept = [blob(size) for size in (1000, 2 * MIB, 30 * MIB)]
        del kept
        cuda.empty_cache()
        return entries(12)


def check_frames_of_history():
    with history("all", context="all", stacks="python"):
        kept = blob(2 * MIB)
        trace = cuda.memory._snapshot()["device_traces"][0]
        frames = trace[-1].get("frames", [])
        return [(frame["name"], frame["line"], os.path.basename(frame["filename"])) for frame in frames], kept.nbytes


def check_native_frames_of_history():
    """That there are some; which ones is the unwinder's."""
    with history("all", context="all", stacks="all"):
        kept = blob(2 * MIB)
        trace = cuda.memory._snapshot()["device_traces"][0]
        names = [frame["name"] for frame in trace[-1].get("frames", [])]
        return len(names) > 5, any("gpumemshim" in name for name in names), kept.nbytes


def check_limit_of_history():
    with history("all", stacks="python", max_entries=5):
        for _ in range(20):
            blob(3 * MIB)
        return len(entries()), entries()[-1:]


def check_state_without_history():
    with history("state", stacks="python"):
        kept = blob(2 * MIB)
        return entries(), kept.nbytes


def check_history_of_out_of_memory():
    with history("all", stacks="python"):
        try:
            blob(1 << 45)
        except torch.OutOfMemoryError:
            pass
        return [(entry["action"], entry["size"]) for entry in cuda.memory._snapshot()["device_traces"][0] if entry["action"] == "oom"][-1:]


def check_history_that_is_switched_off():
    cuda.memory._record_memory_history(None)
    kept = blob(2 * MIB)
    with history("all", stacks="python"):
        return kept.nbytes


def check_history_that_is_wrong():
    return cuda.memory._record_memory_history("some")


def check_compile_context_of_history():
    with history("all", context="alloc", stacks="python"):
        kept = blob(MIB)
        del kept
        return collections.Counter(action for action, _ in entries(5))


def check_a_snapshot_in_a_file():
    kept = blob(3 * MIB)
    with tempfile.TemporaryDirectory() as folder:
        cuda.memory._dump_snapshot(os.path.join(folder, "snapshot.pickle"))
        with open(os.path.join(folder, "snapshot.pickle"), "rb") as file:
            found = pickle.load(file)
    return sorted(found), [segment["total_size"] for segment in found["segments"]], kept.nbytes


def check_usage_of_a_snapshot():
    kept = blob(3 * MIB)
    text = torch.cuda._memory_viz.segsum(cuda.memory._snapshot())
    return [line.split("stream_")[0] for line in text.splitlines() if "Total" in line or "total" in line], kept.nbytes


def check_profiled_memory():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = [blob(MIB) for _ in range(3)]
        del kept[1:]
        torch.zeros(1000, device="cuda").add_(1)
    found = [(event.name, event.device_memory_usage) for event in profiler.events() if getattr(event, "device_memory_usage", 0)]
    return sorted(found), len(kept)


def check_profiled_memory_as_a_timeline():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as profiler:
        model = torch.nn.Linear(100, 100).cuda()
        model(torch.zeros(10, 100, device="cuda")).sum().backward()
    counts = collections.Counter(str(entry[1]) for entry in profiler._memory_profile().timeline)
    return sorted(counts.items())


def check_functions_in_the_profiler():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.zeros(10, device="cuda").add_(1)
    return sorted({event.name for event in profiler.events() if event.name.startswith("aten::")})


def check_settings_at_run_time():
    cuda.memory._set_allocator_settings("max_split_size_mb:40")
    try:
        kept = [blob(60 * MIB), blob(3 * MIB)]
        return segments(), len(kept)
    finally:
        cuda.memory._set_allocator_settings("max_split_size_mb:2147483647")


def check_settings_that_round_up():
    cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
    try:
        kept = [blob(size) for size in (1_100_000, 1_300_000, 5_000_000)]
        return cuda.memory_allocated(), len(kept)
    finally:
        cuda.memory._set_allocator_settings("roundup_power2_divisions:1")


def check_settings_that_are_wrong():
    return cuda.memory._set_allocator_settings("no_such_setting:1")


def check_name_of_the_backend():
    return cuda.get_allocator_backend()

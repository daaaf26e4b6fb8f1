# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Memory snapshots as the versions of PyTorch write them, and such as they write in odd cases, small and made up: ALL by name."""

MIB = 1 << 20
BASE = 0x7F0000000000
T0 = 1_700_000_000_000_000
LINE = [{"filename": "/job/train.py", "line": 12, "name": "step"}, {"filename": "/job/train.py", "line": 40, "name": "<module>"}]
NATIVE = [
    {"filename": "??", "line": 0, "name": "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char, unsigned long, CUstream_st*)"},
    {"filename": "/pytorch/aten/src/ATen/native/cuda/Blas.cpp", "line": 31, "name": "at::(anonymous namespace)::addmm_out<float, true>(at::Tensor&, int)"},
    {"filename": "", "line": 0, "name": "_start"},
    *LINE,
]


def entry(action, block, size, us, frames=LINE, **more):
    where = {"device_free": block} if action == "oom" else {"addr": BASE + block * MIB}
    with_frames = {} if frames is None else {"frames": frames}
    return {"action": action, **where, "size": size, "stream": 0, "time_us": T0 + us, **with_frames, **more}


def freed(block, size, us, later=0, **more):
    return [entry("free_requested", block, size, us, **more), entry("free_completed", block, size, us + later, **more)]


def segment(at, blocks, *, device=0, stream=0, pool=(0, 0), kind="large", expandable=False, frames=LINE, block_frames=LINE, **more):
    """`blocks`: (size, requested size, state)."""
    listed, address = [], BASE + at * MIB
    for size, requested, state in blocks:
        listed.append({"address": address, "size": size, "requested_size": requested, "state": state, "frames": block_frames})
        address += size
    return {
        "device": device,
        "address": BASE + at * MIB,
        "total_size": sum(size for size, _, _ in blocks),
        "allocated_size": sum(size for size, _, state in blocks if state == "active_allocated"),
        "active_size": sum(size for size, _, state in blocks if state != "inactive"),
        "requested_size": sum(requested for _, requested, state in blocks if state != "inactive"),
        "stream": stream,
        "segment_type": kind,
        "segment_pool_id": pool,
        "is_expandable": expandable,
        "frames": frames,
        "blocks": listed,
    }


def snapshot(segments, *traces, **more):
    return {"segments": segments, "device_traces": [list(trace) for trace in traces], "allocator_settings": dict(SETTINGS), "external_annotations": [], **more}


SETTINGS = {
    "PYTORCH_CUDA_ALLOC_CONF": "",
    "max_split_size": -1,
    "garbage_collection_threshold": 0.8,
    "expandable_segments": False,
    "pinned_num_register_threads": 1,
    "release_lock_on_cudamalloc": True,
    "roundup_power2_divisions": {"1": 0, "2": 4, "4": 0},
    "none": None,
}


def pinned(at, size, state="active_allocated", frames=LINE):
    """A segment of PyTorch's allocator of pinned host memory, which is one block of no device."""
    return segment(at, [(size, size, state)], device=-1, kind="small", frames=frames, block_frames=frames)


PINNED = [
    entry("segment_alloc", 9999, MIB, 1),
    entry("alloc", 9999, MIB, 1),
    entry("segment_alloc", 10001, 2 * MIB, 2),
    entry("alloc", 10001, 2 * MIB, 2),
    entry("free_requested", 10001, 2 * MIB, 3),
    entry("free_completed", 10001, 2 * MIB, 8),
]
USED = (8 * MIB, 8 * MIB - 100, "active_allocated")
REST = (12 * MIB, 0, "inactive")
BEGAN = [entry("segment_alloc", 0, 20 * MIB, 0), entry("alloc", 0, 8 * MIB - 100, 1)]
NEWER = {"compile_context": "N/A", "user_metadata": ""}
ONE = segment(0, [USED, REST])

ALL = {
    "from the beginning": snapshot([ONE], BEGAN + [entry("alloc", 8, MIB, 2), *freed(8, MIB, 3, later=1)]),
    "segments from before": snapshot([ONE, segment(1024, [(20 * MIB, 0, "inactive")])], [entry("alloc", 1024, 20 * MIB, 1), *freed(1024, 20 * MIB, 2)]),
    "a moment": snapshot([ONE], []),
    "1.13, a list of segments": [
        {
            **{key: value for key, value in ONE.items() if key not in ("segment_pool_id", "is_expandable", "requested_size", "frames", "blocks")},
            "blocks": [
                {"size": 8 * MIB, "state": "active_allocated", "history": [{"addr": BASE, "real_size": 8 * MIB - 100, "frames": LINE}]},
                {"size": 12 * MIB, "state": "inactive"},
            ],
        }
    ],
    "2.1, no times": snapshot([ONE], [{key: value for key, value in each.items() if key != "time_us"} for each in BEGAN]),
    "no stacks": snapshot([segment(0, [USED, REST], frames=[], block_frames=[])], [entry(each["action"], 0, each["size"], 1, frames=None) for each in BEGAN]),
    "stacks now and then, empty ones and native ones": snapshot(
        [ONE], BEGAN + [entry("alloc", 8, MIB, 2, frames=NATIVE), *freed(8, MIB, 3, frames=[]), entry("alloc", 9, MIB, 4, frames=None), *freed(9, MIB, 5, frames=None)]
    ),
    "frames with more in them": snapshot([ONE], BEGAN + [entry("alloc", 8, MIB, 2, frames=[{**LINE[0], "fx_node_op": "call_function", "fx_node_name": "linear"}]), *freed(8, MIB, 3)]),
    "deep stacks": snapshot([ONE], BEGAN + [entry("alloc", 8, MIB, 2, frames=[{**LINE[0], "line": line} for line in range(1500)]), *freed(8, MIB, 3)]),
    "pending frees and private pools": snapshot(
        [segment(0, [USED, (4 * MIB, 4 * MIB, "active_pending_free"), (8 * MIB, 0, "inactive")]), segment(1024, [(4 * MIB, 0, "active_awaiting_free"), (16 * MIB, 0, "inactive")], pool=(0, 7), stream=93824)],
        [*BEGAN, entry("alloc", 8, 4 * MIB, 2), entry("free_requested", 8, 4 * MIB, 3), entry("alloc", 12, MIB, 4), *freed(12, MIB, 5)],
    ),
    "freed late, by another stream": snapshot(
        [ONE], BEGAN + [entry("alloc", 8, MIB, 2), entry("free_requested", 8, MIB, 3), entry("alloc", 9, MIB, 4), entry("free_completed", 8, MIB, 50), *freed(9, MIB, 60)]
    ),
    "completed without a request": snapshot([ONE], BEGAN + [entry("alloc", 8, MIB, 2), entry("free_completed", 8, MIB, 3), entry("free_completed", 800, MIB, 4)]),
    "what contradicts itself": snapshot([ONE], [*freed(500, MIB, 1), *freed(500, MIB, 2), entry("alloc", 900, MIB, 3), entry("alloc", 900, MIB, 4), entry("segment_free", 333, MIB, 5)]),
    "expandable segments": snapshot(
        [segment(0, [(2 * MIB, 2 * MIB, "active_allocated")], kind="small", expandable=True), segment(100, [(20 * MIB, 0, "inactive")], expandable=True)],
        [
            entry("segment_map", 0, 2 * MIB, 0),
            entry("alloc", 0, 2 * MIB, 1),
            entry("segment_map", 100, 40 * MIB, 2),
            entry("segment_map", 140, 20 * MIB, 2),
            entry("segment_unmap", 120, 30 * MIB, 3),
            entry("segment_unmap", 150, 10 * MIB, 3),
            entry("segment_unmap", 700, 10 * MIB, 3),
        ],
        allocator_settings={**SETTINGS, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "expandable_segments": True},
    ),
    "several devices": snapshot([ONE, segment(4096, [REST], device=2)], BEGAN, [], [entry("alloc", 4096, 12 * MIB, 5), *freed(4096, 12 * MIB, 6)]),
    "out of memory, snapshots, annotations": snapshot(
        [ONE],
        BEGAN + [entry("oom", 123456789, 40 << 30, 10), {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": T0 + 11}, *freed(0, 8 * MIB - 100, 12)],
        external_annotations=[
            {"stage": "END", "name": "before", "device": 0, "time_us": T0 - 5},
            {"stage": "START", "name": "## step ##", "device": 0, "time_us": T0 + 1},
            {"stage": "END", "name": "## step ##", "device": 0, "time_us": T0 + 9},
        ],
    ),
    "2.7, compile context and metadata": snapshot(
        [ONE], [{**each, **NEWER} for each in BEGAN] + [entry("alloc", 8, MIB, 2, compile_context="0/1", user_metadata="epoch 3"), *freed(8, MIB, 3, **NEWER)]
    ),
    "2.14, pools, annotations after the fact, pinned memory": snapshot(
        [segment(0, [USED, REST], registered=False), segment(1024, [(4 * MIB, 4 * MIB, "active_allocated"), (16 * MIB, 0, "inactive")], pool=(3, 1))],
        [{**each, **NEWER, "pool_id": (0, 0)} for each in BEGAN]
        + [entry("alloc", 1024, 4 * MIB, 2, **NEWER, pool_id=(3, 1)), entry("annotate", 1024, 4 * MIB, 3, compile_context="N/A", user_metadata="kv cache", pool_id=(3, 1))],
        host_segments=[pinned(9999, MIB), pinned(10001, 2 * MIB, "inactive", frames=[])],
        host_traces=[{**each, "pool_id": (0, 0)} for each in PINNED],
    ),
    "2.14, pinned memory alone": snapshot(
        [ONE], host_segments=[pinned(9999, MIB), pinned(10001, 2 * MIB, "inactive", frames=[])], host_traces=[{**each, "pool_id": (0, 0)} for each in PINNED]
    ),
    "kinds that nobody knows yet": snapshot(
        [{**ONE, "of tomorrow": {"a": [1, (2.5, None)]}}],
        [BEGAN[0], entry("defragment", 0, MIB, 1), BEGAN[1], entry("alloc", 8, MIB, 2, category=3, component="optimizer"), *freed(8, MIB, 3, component="optimizer")],
        of_tomorrow=[True, -1, 1 << 62, -(1 << 40), 2.5, "text", {"k": ()}],
    ),
    "clocks that go back": snapshot([ONE], BEGAN + [entry("alloc", 8, MIB, -500), *freed(8, MIB, -900, later=-3)]),
    "numbers of other kinds": snapshot([{**ONE, "stream": -7}], BEGAN + [{**entry("alloc", 8, MIB, 2), "stream": -3}, {**entry("free_requested", 8, MIB, 3), "size": float(MIB)}]),
    "empty": snapshot([], [], []),
}

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Writes the seeds of import_fuzz into a folder: small good files of each format, and what people attack readers of pickles with.

    tests/fuzz/make_import_corpus.py FOLDER

Nothing here is unpickled. Every pickle that would run something names a command that leaves a file behind, so that a test can see that none did
(tests/e2e/import_hostile_test.py).
"""

import base64
import gzip
import json
import os
import pathlib
import pickle
import sqlite3
import struct
import sys

MIB = 1 << 20
BASE = 0x7F0000000000
MARKER = "gpumemshim-pickle-was-run"


class Runs:
    """What a hostile pickle is made of: unpickling it calls os.system."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def entry(action, address, size, time_us, frames=()):
    where = "device_free" if action == "oom" else "addr"
    return {"action": action, where: address, "size": size, "stream": 0, "time_us": time_us, "frames": list(frames)}


def snapshot():
    frames = [
        {"filename": "/usr/lib/libtorch.so", "name": "at::empty(long)", "line": 0},
        {"filename": "train.py", "name": "step", "line": 12},
    ]
    blocks = [
        {"address": BASE, "size": MIB, "requested_size": MIB - 5, "state": "active_allocated", "frames": frames},
        {"address": BASE + MIB, "size": MIB, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {"device": 0, "address": BASE, "total_size": 2 * MIB, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0)}
    trace = [
        entry("segment_alloc", BASE, 2 * MIB, 1, frames),
        entry("alloc", BASE, MIB - 5, 2, frames),
        entry("alloc", BASE + MIB, 512, 3),
        entry("free_requested", BASE + MIB, 512, 4),
        entry("free_completed", BASE + MIB, 512, 5),
        entry("segment_map", BASE + (1 << 30), 20 * MIB, 6),
        entry("segment_unmap", BASE + (1 << 30), 20 * MIB, 7),
        entry("oom", 77, 1 << 40, 8, frames),
        entry("snapshot", 0, 0, 9),
    ]
    annotations = [{"stage": stage, "name": "ProfilerStep#1", "device": 0, "time_us": 3} for stage in ("START", "END")]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:20", "max_split_size": 20 * MIB, "roundup_power2_divisions": {"1": 4}}
    return {
        "segments": [{**segment, "is_expandable": False, "blocks": blocks}],
        "device_traces": [trace, []],
        "external_annotations": annotations,
        "allocator_settings": settings,
    }


def xprof_memory():
    total = {"timeOffsetPs": "7000", "aggregationStats": {"heapAllocatedBytes": "1000"}}
    known = {"activityMetadata": {"allocationBytes": "300", "tfOpName": "MatMul"}}
    active = [{"snapshotIndex": "0", "numOccurrences": "2"}, {"snapshotIndex": "-1", "specialIndex": "0"}]
    peak = {"peakStats": total["aggregationStats"], "peakStatsTimePs": "7000", "memoryCapacity": "9000", "peakBytesUsageLifetime": "2000"}
    special = [{"allocationBytes": "200", "tfOpName": "unused preallocated device memory", "regionType": "persist/dynamic"}]
    allocator = {
        "memoryProfileSnapshots": [known],
        "profileSummary": peak,
        "activeAllocations": active,
        "specialAllocations": special,
        "sampledTimelineSnapshots": [total, {**total, "timeOffsetPs": 9000}],
    }
    return {"memoryProfilePerAllocator": {"GPU_0_bfc": allocator, "gpu_host_bfc": allocator, "0": allocator, "cpu": allocator}, "version": 1}


def profile():
    def memory(size, time, total, name="[memory]"):
        args = {"Addr": BASE, "Bytes": size, "Device Id": 0, "Device Type": 1, "Total Allocated": total, "Total Reserved": 2 * MIB}
        return {"ph": "i", "name": name, "ts": time, "pid": 3, "tid": 3, "args": args}

    def span(category, name, time, duration, **args):
        return {"ph": "X", "cat": category, "name": name, "pid": 3, "tid": 3, "ts": time, "dur": duration, "args": args}

    def link(phase, time):
        return {"ph": phase, "id": 1, "pid": 3, "tid": 3, "ts": time, "cat": "fwdbwd", "name": "fwdbwd"}

    events = [memory(512, 1.5, 1024), memory(-512, 2, 512), memory(MIB, 8, 512, "[OutOfMemory]"), memory(64, 6.5, 576)]
    events += [span("user_annotation", "ProfilerStep#0", 0, 9), span("user_annotation", "Optimizer.step#SGD.step", 7, 2)]
    events += [span("python_function", "train.py(9): step", 0, 9, **{"Python id": 2, "Python parent id": 1})]
    events += [span("python_function", "nn.Module: Linear_0", 1, 3), span("cpu_op", "aten::addmm", 1, 1, **{"Call stack": "a.py(1): f;b.py(2): g"})]
    events += [span("cpu_op", "AddmmBackward0", 6, 1), link("s", 1), link("f", 6)]
    devices = [{"id": 0, "name": "GPU", "totalGlobalMem": 4 * MIB}]
    return {"deviceProperties": devices, "distributedInfo": {"rank": 1, "world_size": 2}, "traceEvents": events}


def old_profile():
    """As PyTorch 1.8 wrote it: no address, no totals."""
    sizes = [512, 1024, -512, -64, 512, -1024]
    args = {"Device Id": 0, "Device Type": 1}
    return {"traceEvents": [{"ph": "i", "name": "[memory]", "ts": i, "pid": 3, "tid": 3, "args": {**args, "Bytes": size}} for i, size in enumerate(sizes)]}


def page(data):
    """As PyTorch's _memory_viz.py writes it."""
    files = json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(data + b"\0" * (3 - len(data) % 3)).decode()}])
    return f"\n<!DOCTYPE html>\n<script>\nconst local_files = {files}\nadd_local_files(local_files, 'Active Memory Timeline')\n</script>\n".encode()


RMM = b"""Thread,Time,Action,Pointer,Size,Stream
12,23:59:59.999999,allocate,0x7f0000000000,1024,0x0
12,00:00:00:000001,free,0x7f0000000000,1024,0x0
12,00:00:00:000002,allocate failure,(nil),99999999999,0x1
"""


RMM_DEBUG = b"""[10][08:24:53:000001][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----
[10][08:24:53:000002][trace ] [A][stream 0x0][1048576B]
[11][08:24:53:000004][trace ] [D][stream 0x0][1048576B][0x7f0000000000]
[11][08:24:53:000005][error ] [A][Stream 0x0][Upstream 800000000B][FAILURE maximum pool size exceeded]
"""
CUPY = b"""{"hook":"alloc","device_id":0,"mem_size":512,"mem_ptr":150496608256}
{"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"}
{"hook":"free","device_id":0,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"}
"""


def varint(value):
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def device_memory_profile():
    """As jax.profiler.save_device_memory_profile() writes it: pprof's profile.proto."""
    strings = ["", "allocations", "count", "space", "bytes", "kind", "buffer", "device", "cuda:0", "main", "train.py"]
    labels = field(3, field(1, 5) + field(2, 6)) + field(3, field(1, 7) + field(2, 8))
    profile = field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4))
    profile += field(2, field(1, varint(1)) + field(2, varint(3) + varint(4096)) + labels)
    profile += field(4, field(1, 1) + field(4, field(1, 1) + field(2, 12))) + field(5, field(1, 1) + field(2, 9) + field(4, 10))
    return gzip.compress(profile + b"".join(field(6, text.encode()) for text in strings), mtime=0)


def xspace_profile():
    """As jax.profiler.trace() writes it: an XSpace with one plane and the events of one allocator."""

    def named(number, id, name):
        return field(number, field(1, id) + field(2, field(1, id) + field(2, name)))

    line = field(1, 77) + field(3, 1700000000000000000)
    for kind, time_ns, allocated in ((8, 10, 1100), (9, 30, 1000)):
        stats = field(4, field(1, 1) + field(5, b"GPU_0_bfc")) + field(4, field(1, 2) + field(4, allocated))
        stats += field(4, field(1, 3) + field(4, 100)) + field(4, field(1, 4) + field(3, 4096)) + field(4, field(1, 5) + field(7, 6))
        line += field(4, field(1, kind) + field(2, time_ns * 1000) + stats)
    plane = field(2, b"/host:CPU") + field(3, line) + named(4, 8, b"MemoryAllocation") + named(4, 9, b"MemoryDeallocation")
    for id, name in enumerate((b"allocator_name", b"bytes_allocated", b"allocation_bytes", b"addr", b"tf_op", b"jit_step"), 1):
        plane += named(5, id, name)
    return field(1, plane)


def nsys_report():
    """As nsys export --type sqlite writes it, of the tables that are read."""
    database = sqlite3.connect(":memory:")
    database.executescript(
        "PRAGMA page_size=512; CREATE TABLE StringIds(id, value); INSERT INTO StringIds VALUES (1, 'cudaMalloc_v3020');"
        "CREATE TABLE TARGET_INFO_GPU(id, name, totalMemory, cuDevice); INSERT INTO TARGET_INFO_GPU VALUES (0, 'H100', 85899345920, 0);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(globalTid, correlationId, nameId, callchainId);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (117440583, 31, 1, 8);"
        "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start, globalPid, deviceId, address, bytes, memKind, memoryOperationType, correlationId);"
        "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (10, 117440512, 0, 4096, 1000, 2, 0, 31), (20, 117440512, 0, 4096, 1000, 2, 1, 0);"
    )
    return database.serialize()


def hostile(folder):
    """{name: bytes} of pickles that must be refused."""
    command = f"touch {folder}/{MARKER}"
    files = {f"system{protocol}": pickle.dumps({"segments": [Runs(command)]}, protocol) for protocol in range(6)}
    files["global"] = f"cos\nsystem\n(S'{command}'\ntR.".encode()
    files["inst"] = f"(S'{command}'\nios\nsystem\n.".encode()
    files["obj"] = f"(cos\nsystem\nS'{command}'\no.".encode()
    files["build"] = b"}}b."
    files["setstate"] = f"cos\nsystem\n)R}}S'__setstate__'\ncos\nsystem\nsbS'{command}'\nb.".encode()
    files["eval"] = f"cbuiltins\neval\n(S'__import__(\"os\").system(\"{command}\")'\ntR.".encode()
    files["stack_global"] = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + bytes([len(command)]) + command.encode() + b"\x85R."
    files["memo_global"] = b"\x80\x04\x8c\x02os\x94\x8c\x06system\x940h\x00h\x01\x93."
    files["newobj"] = f"cos\nsystem\n(S'{command}'\nt\x81.".encode("latin1")
    files["newobj_ex"] = b"\x80\x04cos\nsystem\n)}\x92."
    files["newobj_without_class"] = b"\x80\x02]])\x81."
    files["reduce_in_snapshot"] = b"\x80\x02}X\x08\0\0\0segmentscos\ngetcwd\n)Rs."
    files["binpersid"] = b"\x80\x02X\x02\0\0\0idQ."
    files["extension2"], files["extension4"] = b"\x80\x02\x83\x01\0.", b"\x80\x02\x84\x01\0\0\0."
    files["buffers"] = b"\x80\x05\x97\x98."
    files["persid"] = b"Pid\n."
    files["extension"] = b"\x80\x02\x82\x01."
    files["deep"] = b"\x80\x02" + b"]" * 30000 + b"a" * 29999 + b"."
    files["deep_tuple"] = b"\x80\x02)" + b"\x85" * 30000 + b"."
    bomb = b"]q\x00(" + b"N" * 100 + b"e"
    for level in range(1, 60):
        bomb += b"]q" + bytes([level]) + b"(" + (b"h" + bytes([level - 1])) * 100 + b"e"
    files["memo_bomb"] = b"\x80\x02" + bomb + b"."
    files["trace_bomb"] = b"\x80\x02}(X\x0d\0\0\0device_traces](](" + (b"}(X\x06\0\0\0actionX\x05\0\0\0allocu" * 500) + b"eq\x01" + b"h\x01" * 15000 + b"eu."
    files["long4"] = b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x" * 100 + b"."
    files["long4_negative"] = b"\x80\x02\x8b" + struct.pack("<i", -5) + b"."
    files["text8"] = b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b"."
    files["frame"] = b"\x80\x04\x95" + struct.pack("<Q", 2**64 - 1) + b"N."
    files["put"] = b"\x80\x02Nr\xff\xff\xff\xff."
    files["cycle"] = b"\x80\x02]q\x00h\x00a."
    files["cyclic_snapshot"] = b"\x80\x02}q\x00(X\x08\0\0\0segmentsh\x00X\x0d\0\0\0device_traces]q\x01h\x01au."
    files["wrong_types"] = pickle.dumps({"segments": {"a": 1}, "device_traces": 7}, 2)
    files["wrong_items"] = pickle.dumps({"segments": [1, "x", None], "device_traces": [[1, 2], "alloc"]}, 4)
    files["system_in_page"] = page(files["system2"])
    negative = snapshot()
    negative["segments"][0]["blocks"][0]["requested_size"] = -1048571
    files["negative"] = pickle.dumps(negative, 4)
    files["huge"] = pickle.dumps({"segments": [], "device_traces": [[entry("alloc", 2**64 - 1, 2**64 - 1, 2**63)]]}, 4)
    return files


def good():
    files = {f"snapshot{protocol}": pickle.dumps(snapshot(), protocol) for protocol in range(6)}
    files["snapshot_gz"] = gzip.compress(files["snapshot4"], mtime=0)
    files["list"] = pickle.dumps(snapshot()["segments"], 4)
    files["snapshot_json"] = json.dumps(snapshot()).encode()
    files["snapshot_page"] = page(files["snapshot2"])
    files["xprof_memory"] = json.dumps(xprof_memory()).encode()
    host = [entry(action, BASE << 1, MIB, 3) for action in ("segment_alloc", "alloc", "free_requested", "free_completed", "segment_free")]
    files["snapshot_pinned"] = pickle.dumps({**snapshot(), "host_traces": host, "host_segments": snapshot()["segments"]}, 4)
    files["profile"] = json.dumps(profile()).encode()
    files["old_profile"] = json.dumps(old_profile()).encode()
    files["rmm"] = RMM
    files["rmm_debug"] = RMM_DEBUG
    files["cupy"] = CUPY
    files["timeline"] = b"[[1700000000000000, 1700000000000010], [[0,9,0,0,0,0,0,0,0], [0,9,0,0,4,0,0,0,0]]]"
    files["timeline_raw"] = b"[[-1, 1, 64, 0], [17, 2, 32, 7], [18, 3, -32, 7], [18, 3, 32, 5], [19, 4, -32, 5]]"
    files["device_memory_profile"] = device_memory_profile()
    files["nsys"] = nsys_report()
    files["xspace"] = xspace_profile()
    return files


def cut(bytes_of_file):
    """The same at every opcode: what is left of an interrupted copy."""
    import pickletools

    return [bytes_of_file[:position] for _, _, position in pickletools.genops(bytes_of_file)]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**good(), **hostile(folder)}.items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()

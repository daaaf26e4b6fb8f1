# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The requests of a recorded history through the real allocator of an installed PyTorch on simulated CUDA, and what it does with them.

    answer = replay(bench, python, snapshot, device, history.simulated)["simulated"]
    answer["sequence_identical"], answer["segments_equal"], answer["placement"]

Requests are the allocations, the frees when they are completed, and empty_cache where the recorded stack shows it. What must come out by itself: every
segment that is asked of CUDA or given back, the failures, and in which segment and where each block lies. In "imposed" each new segment is placed
where it lay among the others on the GPU, so what remains is the allocator alone. No script is needed for this; nor is our recorder part of it.
"""

import bisect
import json
import os
import subprocess

import events as histories
import rerun
import snapshot_file
import start_state

MIB = 1 << 20
CONTEXT_MIB = 512
SEGMENT_ENDS = ("segment_free", "segment_unmap")
PLENTY_MIB = 1 << 20


def by_hand(entry):
    """A segment that the program gave back itself, not the allocator in need."""
    names = [frame["name"] for frame in entry.get("frames", ())]
    return any("emptyCache" in name or "empty_cache" in name for name in names) or not any("malloc" in name for name in names)


def requests_of(entries, start, imposed):
    """[["alloc", block, bytes, stream, place or None] | ["free", block] | ["empty"] | ["oom", bytes, stream]], and the streams."""
    live = {block.address: block_number for block_number, block in enumerate(block for each in start.ranges for block in each.blocks.values())}
    streams, found, number, place, emptied = {0: 0}, [], len(live), None, False
    for each in start.ranges:
        streams.setdefault(each.stream, len(streams))
    for entry in entries:
        kind, address = entry["action"], entry.get("addr", 0)
        stream = streams.setdefault(entry.get("stream", 0), len(streams))
        if kind in SEGMENT_ENDS and by_hand(entry):
            if not emptied:
                found.append(["empty"])
            emptied = True
            continue
        emptied = False
        if kind == "segment_alloc":
            place = address
        elif kind == "alloc":
            found.append(["alloc", number, entry["size"], stream, place if imposed else None])
            live[address], number, place = number, number + 1, None
        elif kind == "free_completed" and address in live:
            found.append(["free", live.pop(address)])
        elif kind == "oom":
            found.append(["oom", entry["size"], stream])
    return found, streams


def capacity_mib(entries, start):
    """A size of the GPU with which what failed fails: above all that was ever reserved, below what was when CUDA refused. Plenty where nothing did."""
    reserved, most, refused = start.bytes, start.bytes, None
    for index, entry in enumerate(entries):
        kind, size = entry["action"], entry["size"]
        if kind == "oom" or (kind in SEGMENT_ENDS and not by_hand(entry) and entries[index - 1]["action"] not in SEGMENT_ENDS):
            wanted = size if kind == "oom" else next((after["size"] for after in entries[index:] if after["action"] in ("segment_alloc", "segment_map")), size)
            refused = min(refused or reserved + wanted, reserved + wanted)
        if kind in ("segment_alloc", "segment_map"):
            reserved += size
            most = max(most, reserved)
        elif kind in SEGMENT_ENDS:
            reserved -= size
    if refused is None or refused <= most:
        return PLENTY_MIB
    return -(-most // MIB) + (refused - most) // MIB // 2 + CONTEXT_MIB


def places(events, bases):
    """For each allocation (number of its segment, offset in it): segments in the order in which they come, those of the beginning first."""
    named = {base: index for index, (base, _) in enumerate(bases)}
    ends = {base: base + size for base, size in bases}
    order, count, found = sorted(named), len(bases), []
    for kind, size, address in events:
        if kind == "segment_alloc":
            named[address], ends[address], count = count, address + size, count + 1
            bisect.insort(order, address)
        elif kind == "segment_free" and address in named:
            del named[address]
            order.remove(address)
        elif kind == "alloc":
            index = bisect.bisect_right(order, address) - 1
            inside = index >= 0 and address < ends[order[index]]
            found.append((named[order[index]], address - order[index]) if inside else None)
    return found


def sequence(events, numbers):
    """Kinds and sizes, but for requests to free; a free names the block that it ends, as allocations are numbered."""
    live, number, found = dict(numbers), len(numbers), []
    for kind, size, address in events:
        if kind == "alloc":
            live[address], number = number, number + 1
        if kind == "free_completed":
            found.append((kind, live.pop(address, None)))
        elif kind != "free_requested":
            found.append((kind, size))
    return found


def run(bench, python, jobs, conf):
    """The result of each of `jobs`, [(given, settings)]; all in one Python, which forks for each before CUDA begins."""
    bench.work.mkdir(parents=True, exist_ok=True)
    files = []
    for index, (given, settings) in enumerate(jobs):
        request, result = bench.work / f"requests-{os.getpid()}-{index}.json", bench.work / f"result-{os.getpid()}-{index}.json"
        request.write_text(json.dumps({**given, "settings": settings}))
        result.unlink(missing_ok=True)
        files += [request, result]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "SIMCUDA_", "GPUMEMSHIM_"))}
    environment = {**kept, "SIMCUDA_LIB": str(bench.build / "lib" / "simcuda"), **({"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {})}
    command = [str(rerun.ROOT / "simcuda" / "run"), python, str(rerun.HERE / "allocate_in_process.py"), *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=rerun.LONGEST_S, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise rerun.Failed((done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1])
    results = [json.loads(path.read_text()) for path in files[1::2]]
    for path in files:
        path.unlink()
    return results


def described(start, streams):
    number, ranges = 0, []
    for each in start.ranges:
        blocks = []
        for block in each.blocks.values():
            blocks.append([block.address, block.took, number])
            number += 1
        ranges.append({"address": each.address, "size": each.size, "stream": streams[each.stream], "small": each.small, "blocks": sorted(blocks)})
    return ranges


def job(entries, start, imposed, simulated):
    requests, streams = requests_of(entries, start, imposed)
    spans = [(each.address, each.size) for each in start.ranges]
    spans += [(entry["addr"], entry["size"]) for entry in entries if entry["action"] == "segment_alloc"] if imposed else []
    given = {"expandable": start.expandable, "spans": spans, "streams": len(streams), "start": described(start, streams), "requests": requests}
    device = {name: value for name, value in simulated.items() if name.startswith("SIMCUDA_") and not (imposed and name == "SIMCUDA_ADDRESSES")}
    if start.expandable and start.ranges:
        device["SIMCUDA_ADDRESSES"] = "wsl2"  # what was there before is built range by range, upwards; no single range is placed
    return given, {**device, "SIMCUDA_MEM_MB": str(capacity_mib(entries, start)), "SIMCUDA_CTX_MB": str(CONTEXT_MIB), "SIMCUDA_MODULE_KB": "0"}


def compared(entries, start, final, ours, imposed):
    real_events = [(entry["action"], entry["size"], entry.get("addr", 0)) for entry in entries]
    numbers = {block.address: number for number, block in enumerate(block for each in start.ranges for block in each.blocks.values())}
    real, here = sequence(real_events, numbers), sequence(ours["events"], dict(ours["started"]))
    answer = {
        "events": len(entries),
        "torch": ours["torch"],
        "from_empty": not start.ranges,
        "expandable": start.expandable,
        "sequence_identical": real == here,
        "first_difference": next((index for index, pair in enumerate(zip(real, here)) if pair[0] != pair[1]), None if len(real) == len(here) else min(len(real), len(here))),
        "cuda_calls": sum(kind.startswith("segment_") for kind, _, _ in real_events),
        "failures": sum(kind == "oom" for kind, _, _ in real_events),
        "failures_here": ours["failures"],
        "segments_equal": final == sorted(size for size, _ in ours["segments"]),
        "died": ours["died"],
        "addresses": "the GPU's" if imposed and ours["placed"] else "simulated",
    }
    if not start.expandable:
        sizes = [each.size for each in start.ranges]
        mine, theirs = places(ours["events"], list(zip(ours["bases"], sizes))), places(real_events, [(each.address, each.size) for each in start.ranges])
        answer["placement"] = {"allocations": len(theirs), "equal": sum(a == b for a, b in zip(mine, theirs)), "identical": mine == theirs}
    return answer


def replay(bench, python, snapshot, device, simulated):
    """`simulated`: settings of the device. {"simulated": answer, "imposed": answer}: with simulated CUDA's addresses, and with the GPU's."""
    entries = snapshot_file.entries(snapshot, device)
    start = start_state.rebuild(snapshot, device)
    conf = (snapshot.get("allocator_settings") or {}).get("PYTORCH_CUDA_ALLOC_CONF", "") or ("expandable_segments:True" if start.expandable else "")
    final = sorted(segment["total_size"] for segment in snapshot_file.segments(snapshot, device))
    simulated, imposed = run(bench, python, [job(entries, start, False, simulated), job(entries, start, True, simulated)], conf)
    return {"simulated": compared(entries, start, final, simulated, False), "imposed": compared(entries, start, final, imposed, True)}

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Truth, event by event: the torch events of a trace against PyTorch's own memory history, and CUDA's events against the simulated driver's log.

    python tests/e2e/history.py --case gpt [--build build/release]

For every device: the allocations and frees that PyTorch recorded are, in order, those of the trace (address and kind equal; our block is at
least the rounded request and at most 1 MiB more); the blocks that are live after them are those of PyTorch's snapshot, sizes included; and the
bytes live in CUDA after each call, as the trace tells it, end and peak where the log of the simulated driver says. Exit codes as truth.py.
"""

import argparse
import collections
import csv
import json
import pathlib
import sys
import tempfile

import truth

ROUNDING = 512           # PyTorch's smallest block
EXCESS = 1 << 20         # a remainder up to this is not split off
WITH_HISTORY = truth.PROGRAMS / "with_history.py"


def rounded(size):
    return max(ROUNDING, -(-size // ROUNDING) * ROUNDING)


def events_of(setup, trace):
    """All events of a trace as dictionaries, addresses as numbers."""
    for line in truth.run([setup.gpumem, "export", "events", "--json", str(trace)], setup).splitlines():
        event = json.loads(line)
        event["address"] = int(event["address"], 16)
        event["handle"] = int(event["handle"], 16)
        yield event


def torch_events(events):
    """Device -> [(action in PyTorch's words, address, bytes)]."""
    words = {"alloc": "alloc", "free": "free_requested", "alloc_failed": "oom"}
    found = collections.defaultdict(list)
    for event in events:
        if event["layer"] == "torch":
            found[event["device"]].append((words[event["kind"]], event["address"], event["size_bytes"]))
    return found


def entry_difference(index, ours, theirs):
    """What is wrong with one event, or None."""
    action, address, size = ours
    if action != theirs["action"]:
        return f"event {index}: the trace says {action}, PyTorch {theirs['action']}"
    if action == "oom":
        return None if size == rounded(theirs["size"]) else f"event {index}: failed request of {size} bytes, PyTorch {theirs['size']}"
    if address != theirs["address"]:
        return f"event {index}: {action} of {address:#x}, PyTorch {theirs['address']:#x}"
    if action == "alloc" and not rounded(theirs["size"]) <= size <= rounded(theirs["size"]) + EXCESS:
        return f"event {index}: block of {size} bytes for a request of {theirs['size']}"
    return None


def live_after(events):
    live = {}
    for action, address, size in events:
        if action == "alloc":
            live[address] = size
        elif action == "free_requested":
            live.pop(address, None)
    return live


def torch_differences(trace_events, history):
    """Sentences, one a difference; empty where trace and history agree."""
    found = torch_events(trace_events)
    for device in history["devices"]:
        ours, theirs = found[device["device"]], device["history"]
        name = f"device {device['device']}"
        if len(ours) < len(theirs):
            yield f"{name}: {len(ours)} torch events, PyTorch has {len(theirs)}"
        for index, (mine, other) in enumerate(zip(ours, theirs)):
            difference = entry_difference(index, mine, other)
            if difference:
                yield f"{name}: {difference}"
                break
        blocks = {int(address): size for address, size in device["blocks"].items()}
        live = live_after(ours[: len(theirs)])
        if live != blocks:
            wrong = sorted(set(live.items()) ^ set(blocks.items()))[:5]
            yield f"{name}: live blocks differ from the snapshot's: {wrong}"
        if any(action != "free_requested" for action, _, _ in ours[len(theirs) :]):
            yield f"{name}: the trace has allocations that PyTorch's history lacks"


# The log's words for what the trace calls otherwise.
LOG_KINDS = {
    "reserve": "address_reserve",
    "unreserve": "address_free",
    "create": "physical_create",
    "release": "physical_release",
    "retain": "physical_retain",
    "register": "host_register",
    "unregister": "host_unregister",
    "host_alloc": "alloc",
    "host_free": "free",
}
SIZED_KINDS = ("alloc", "address_reserve", "physical_create", "map")
COMPARED_KINDS = (*SIZED_KINDS, "free", "address_free", "physical_release", "physical_retain", "unmap", "host_register", "host_unregister")
END_KINDS = ("free", "address_free", "physical_release", "unmap", "host_unregister", "import_close", "pool_destroy")
NAMED_BY_HANDLE = ("physical_create", "physical_release", "physical_retain")


def calls_by_name(calls):
    """Address or handle -> its calls in order: [(kind, bytes where the kind has them)]. Order between threads is known by each name alone."""
    found = collections.defaultdict(list)
    for kind, address, handle, size in calls:
        if kind in COMPARED_KINDS:
            name = ("handle", handle) if kind in NAMED_BY_HANDLE else ("address", address)
            found[name].append((kind, size if kind in SIZED_KINDS else None))
    return found


def traced_calls(events):
    """The calls of a trace that happened, last first: one that a correction takes back did not."""
    refused = collections.Counter()  # corrections whose call stands before them
    for event in reversed(events):
        name = event["thread"], event["address"], event["handle"]
        if event["kind"] == "free_failed":
            refused[name] += 1
        elif event["kind"] in END_KINDS and refused[name]:
            refused[name] -= 1
        elif event["layer"] != "torch" and (event["address"] or event["handle"] or event["size_bytes"]):  # cudaMalloc of 0 bytes gives nothing
            yield event["kind"], event["address"], event["handle"], event["size_bytes"]


def rows_of_log(path):
    """Rows of the simulated driver's log. The last one may be torn, where a process ended while its threads went on."""
    with open(path, newline="") as file:
        yield from (row for row in csv.DictReader(file, delimiter="\t") if None not in row.values())


def logged_calls(rows):
    for row in rows:
        yield LOG_KINDS.get(row["kind"], row["kind"]), int(row["address"], 16), int(row["handle"], 16), int(row["size"])


def log_differences(events, rows):
    """Every call that the simulated driver logged is in the trace, in order for each address, and nothing else is."""
    ours, theirs = calls_by_name(reversed(list(traced_calls(events)))), calls_by_name(logged_calls(rows))
    for name in sorted(set(ours) | set(theirs)):
        mine, other = ours.get(name, []), theirs.get(name, [])
        if mine != other:
            yield f"{name[0]} {name[1]:#x}: the trace has {mine[:4]}, the driver's log {other[:4]}"


def live_differences(answer, rows):
    """Peak and end of CUDA's live bytes, device by device, as the log counts them."""
    peak, end = collections.Counter(), {}
    for row in rows:
        device, live = int(row["device"]), int(row["live_bytes"])
        if device >= 0:
            peak[device] = max(peak[device], live)
            end[device] = live
    for device in answer["devices"]:
        index = device["device"]
        for name, expected, actual in (
            ("peak", peak[index], device["peak"]["total_bytes"]),
            ("end", end.get(index, 0), device["end"]["total_bytes"]),
        ):
            if expected != actual:
                yield f"device {index}: {name} of live CUDA bytes is {actual}, the driver's log says {expected}"


def compare_case(name, setup, folder):
    """All differences of a case, as sentences."""
    case = {**truth.CASES, **truth.LOGGED}[name]
    trace, history, log = folder / f"{name}.gmtrace", folder / f"{name}.json", folder / f"{name}.tsv"
    environment = truth.environment_of(case, setup)
    environment["SIMCUDA_LOG"] = str(log)
    program = truth.PROGRAMS / case.program
    # PyTorch keeps no history of cudaMallocAsync's blocks; the driver's log tells all of them.
    command = [*setup.command(WITH_HISTORY), str(program), str(history)] if case.blocks else setup.command(program)
    truth.run(setup.recording(trace, *command), setup, environment)
    events, rows = list(events_of(setup, trace)), list(rows_of_log(log))
    if not events or not rows:
        return [f"nothing to compare: {len(events)} events in the trace, {len(rows)} calls in the driver's log"]
    differences = list(torch_differences(events, json.loads(history.read_text())) if case.blocks else ())
    differences += log_differences(events, rows)
    differences += live_differences(truth.report(setup, trace), rows)
    return differences


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=sorted({**truth.CASES, **truth.LOGGED}), required=True)
    parser.add_argument("--build", type=pathlib.Path, default=truth.ROOT / "build" / "release", help="build tree (%(default)s)")
    parser.add_argument("--python", default=str(truth.ROOT / ".venv" / "bin" / "python"), help="Python with torch (%(default)s)")
    arguments = parser.parse_args(argv)
    setup = truth.Setup(arguments.build.resolve(), arguments.python, simulated=True)
    truth.skip_without_torch(setup)
    with tempfile.TemporaryDirectory(prefix="gpumemshim-history-") as folder:
        try:
            differences = compare_case(arguments.case, setup, pathlib.Path(folder))
        except truth.Failure as failure:
            differences = [str(failure)]
    for difference in differences[:20]:
        print(f"{arguments.case}: {difference}")
    print(f"{arguments.case}: {'FAILED' if differences else 'ok'}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Records parts of itself by gpumemshim.record(), asks for the answers, and prints as a JSON line what they were and what PyTorch counted.

    python_api.py FOLDER        with or without the recorder preloaded
"""

import json
import os
import pathlib
import sys
import threading

import gpumemshim
import torch

MIB = 1 << 20
FOLDER = pathlib.Path(sys.argv[1])
kept = []


def mib(count):
    return torch.empty(count * MIB, dtype=torch.uint8, device="cuda")


def work(count):
    kept.append(mib(count))
    return mib(2 * count).numel()


def sizes_of(recording):
    return [recording.start_bytes, recording.peak_bytes, recording.end_bytes, recording.grown_bytes]


@gpumemshim.record(FOLDER / "decorated.gmtrace", tell=lambda recording: told.append(sizes_of(recording)))
def decorated(count):
    """Its docstring stays."""
    return work(count)


def nested(reported):
    with gpumemshim.record(name="outer") as outer:
        work(4)
        with gpumemshim.record(name="inner") as inner:
            mib(32)
        after = gpumemshim.recording()
    reported.update(outer=sizes_of(outer), inner=sizes_of(inner), recording_between=after)


def failing(reported):
    try:
        with gpumemshim.record(name="fails") as recording:
            mib(8)
            raise ValueError("the program's own")
    except ValueError as error:
        reported["error"] = str(error)
    reported["fails"] = sizes_of(recording)


def threads(reported):
    """Parts on other threads, inside one of this thread: each knows its own beginning and end."""
    found = {}
    with gpumemshim.record(name="all", keep=True):
        for name, size in (("one", 3), ("two", 5)):

            def body(name=name, size=size):
                with gpumemshim.record(name=name) as recording:
                    mib(size)
                found[name] = sizes_of(recording)

            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
    reported["threads"] = found


def without_gpumem(reported):
    """What cannot be asked, and what cannot be written, stops no program; the reason comes when something is asked."""
    with gpumemshim.record("/proc/no/such/folder.gmtrace") as unwritable:
        mib(2)
    reported["unwritable"] = unwritable.peak_bytes - unwritable.start_bytes
    os.environ["GPUMEMSHIM_PROGRAM"] = "/nonexistent"
    try:
        with gpumemshim.record() as recording:
            mib(2)
            raise ValueError("the program's own")
    except ValueError:
        pass
    try:
        recording.peak()
    except gpumemshim.GpumemError as error:
        reported["without_gpumem"] = str(error)


told, before = [], mib(16)
reported = {"preloaded": gpumemshim.recording(), "decorated_doc": decorated.__doc__}
with gpumemshim.record(FOLDER / "with.gmtrace", name="with") as recording:
    work(32)
    reported["inside"] = str(recording)
reported["counted"] = [16 * MIB, torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()]
reported["with"] = [*sizes_of(recording), str(recording)]
peak = recording.peak()
reported["peak"] = [peak.bytes, peak.device, peak.lines[0]["bytes"], peak.lines[0]["line"], sum(row["bytes"] for row in peak.lines), str(peak)]
reported["changes"] = recording.changes()["headline"]
reported["report"] = recording.report()["devices"][0]["peak"]["allocated_bytes"]
reported["trace"] = str(recording.trace)
reported["picture"] = recording.picture().hex()[:16]
reported["page"] = str(recording.html(FOLDER / "page.html"))
reported["after"] = gpumemshim.recording()
start = torch.cuda.memory_allocated()
reported["decorated"] = [decorated(8), start, told[0]]
nested(reported)
failing(reported)
threads(reported)
with gpumemshim.record(name="nothing") as nothing:
    pass
reported["nothing"] = sizes_of(nothing)
without_gpumem(reported)
print(json.dumps(reported))

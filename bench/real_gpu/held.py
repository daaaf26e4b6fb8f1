# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A re-run held against the numbers of a real GPU: PyTorch's own history, the recorder's trace, and the analyzer's answer.

    answer = compare_run(bench, facts.read(path), bench.own(history))
    answer["history"]["identical"], answer["trace"]["identical"], answer["analyzer"]["equal"]

Each is a witness of its own: the history is PyTorch's, the trace is what our hooks saw of the same calls, the analyzer read the trace only.
"""

import os
import pathlib
import subprocess

import events
import facts as facts_file
import rerun
import snapshot_file
import trace_side

SHARED = rerun.ROOT.parent / "shared" / "real-gpu"


def folders_of_histories():
    """Folders that have authors' files: those of GPUMEMSHIM_REAL_GPU_HISTORIES, separated by ":", and ../shared/real-gpu."""
    named = [pathlib.Path(folder) for folder in os.environ.get("GPUMEMSHIM_REAL_GPU_HISTORIES", "").split(":") if folder]
    return [folder for folder in (*named, SHARED) if folder.is_dir()]


def pythons_given():
    """GPUMEMSHIM_REAL_GPU_TORCH="2.6.0=/path/to/python ..." as a dictionary."""
    return dict(pair.split("=", 1) for pair in os.environ.get("GPUMEMSHIM_REAL_GPU_TORCH", "").split())


def compare_run(bench, real, run):
    """`real` are Facts, `run` a rerun.Run."""
    ours = events.Device.of_snapshot(snapshot_file.load(run.snapshot), 0)
    gpumem = bench.build / "bin" / "gpumemshim"
    history = events.compare(real.device, ours)
    history["layout_equal"] = real.layout == facts_file.digest(ours.layout)
    allocated, reserved = trace_side.at_the_end(gpumem, run.trace)
    return {
        "history": history,
        "trace": trace_side.compare(real.device.events, real.device.blocks, trace_side.window(gpumem, run.trace)),
        "analyzer": {
            "allocated": allocated,
            "reserved": reserved,
            "equal_to_run": (allocated, reserved) == (ours.allocated, history["reserved_ours"]),
            "allocated_equal": allocated == real.device.allocated,
            "reserved_equal": reserved == history["reserved"],
        },
    }


def compare_import(gpumem, real, path, work):
    """The author's file as `gpumemshim import` reads it: its events, and what the analyzer says of the end. `real` are Facts."""
    work.mkdir(parents=True, exist_ok=True)
    trace, device = work / "imported.gmtrace", real.about["device"]
    subprocess.run([gpumem, "import", "--force", str(path), "-o", str(trace)], capture_output=True, text=True, check=True)
    allocated, reserved = trace_side.at_the_end(gpumem, trace, "end", device)
    found = trace_side.compare(real.device.events, real.device.blocks, trace_side.all_events(gpumem, trace), device)
    ends = (allocated, reserved) == (real.device.allocated, sum(size for size, _ in real.device.segments))
    return {**found, "allocated": allocated, "reserved": reserved, "ends_equal": ends}


# What a catalogue's `differs` takes back.
TAKEN_BACK = {
    "order": [("history", "identical"), ("trace", "identical")],
    "events": [("history", "identical_but_order_of_frees"), ("trace", "identical_but_order_of_frees")],
    "segments": [("history", "segments_equal"), ("analyzer", "reserved_equal")],
    "layout": [("history", "layout_equal"), ("analyzer", "allocated_equal")],
}
ALWAYS = [("history", "peak_equal"), ("trace", "mapped_equal"), ("analyzer", "equal_to_run")]


def wrong_claims(history, answer):
    """Sentences: what should hold of a re-run and does not, and what the catalogue says differs and does not any more."""
    for part, name in ALWAYS:
        if not answer[part][name]:
            yield f"{part} {name} does not hold"
    # An order of frees that host addresses decide may be the GPU's by luck, and what it leaves of segments and blocks, too.
    free = {"order", "segments", "layout"} if "order" in history.differs else set()
    for word, claims in TAKEN_BACK.items():
        failed = [name for part, name in claims if not answer[part][name]]
        if word in free:
            continue
        if not failed and word in history.differs:
            yield f"the catalogue says that {word} differs, and it does not any more"
        if failed and word not in history.differs:
            yield f"{word} differs: {', '.join(failed)}"

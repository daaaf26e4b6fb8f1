# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A markdown table of what bench/run measured, each row beside the bar that it is held to."""

KINDS_OF_STACKS = {"none": "no stack", "python": "Python alone", "native": "native alone", "both_cut": "Python and native up to the interpreter", "both_full": "Python and all native"}
HISTORIES = {"none": "no stack", "python": "Python alone", "all": "Python and native"}


def stack_rows():
    """One PyTorch event by what is recorded of its stack; on a stack that comes again and again, and on one never seen before."""
    for kind, which in {"cached": "same stack", "new": "new stack each time"}.items():
        for name, what in KINDS_OF_STACKS.items():
            yield ("event", f"stacks_{kind}.{name}.ns_an_event", f"one PyTorch event, {which}, 20 Python frames: {what}", "{:.0f} ns", "")
        for name, what in HISTORIES.items():
            yield ("event", f"stacks_{kind}.history_{name}.ns_an_event", f"PyTorch's own history, {which}: {what}", "{:.0f} ns", "")


STACK_ROWS = tuple(stack_rows())

# (part, path of the figure in it, what it is, unit and format, bar)
ROWS = (
    ("event", "native_1_thread.ns_an_event", "one cudaMalloc or cudaFree, native stack of 20 frames, 1 thread", "{:.0f} ns", "200 ns"),
    ("event", "native_2_threads.ns_an_event", "the same, 2 threads (simulated CUDA's lock in it)", "{:.0f} ns", ""),
    ("event", "report_1_thread.ns_an_event", "one report of PyTorch's allocator, native stack of 20 frames, 1 thread", "{:.0f} ns", "200 ns"),
    ("event", "report_2_threads.ns_an_event", "the same, 2 threads (CPU time an event)", "{:.0f} ns", "1.2 x 1 thread"),
    ("event", "python_1_thread.ns_an_event", "one PyTorch event, 20 Python frames and the native ones", "{:.0f} ns", "200 ns"),
    ("event", "history_python.ns_an_event", "PyTorch's own history, Python stacks", "{:.0f} ns", ""),
    ("event", "history_all.ns_an_event", "PyTorch's own history, all stacks", "{:.0f} ns", ""),
    *STACK_ROWS,
    ("event", "heaptrack_1_thread.ns_an_event", "heaptrack, a malloc or free, 1 thread", "{:.0f} ns", ""),
    ("event", "heaptrack_2_threads.ns_an_event", "heaptrack, 2 threads", "{:.0f} ns", ""),
    ("event", "memray_python.ns_an_event", "memray, a malloc or free, Python stack", "{:.0f} ns", ""),
    ("event", "memray_native.ns_an_event", "memray --native", "{:.0f} ns", ""),
    ("step", "plain_ms.median", "training step, no recorder", "{:.2f} ms", ""),
    ("step", "recorded_ms.median", "training step, recorded", "{:.2f} ms", ""),
    ("step", "overhead_percent", "step overhead", "{:+.1f} %", "{step_bar}"),
    ("step", "overhead_percent_with_a_core_to_spare", "the same with a core to spare for the recorder's thread", "{:+.1f} %", ""),
    ("step", "overhead_percent_with_free_stacks", "the same with stacks of frees too, as PyTorch's history has them", "{:+.1f} %", ""),
    ("step", "overhead_percent_without_helper", "the same without the helper in the program's Python", "{:+.1f} %", ""),
    ("step", "overhead_percent_without_attribution", "the same without what is seen of modules and autograd", "{:+.1f} %", ""),
    ("step", "overhead_percent_without_native_frames", "the same without native frames", "{:+.1f} %", ""),
    ("step", "overhead_percent_without_stacks", "the same without stacks: events alone", "{:+.1f} %", ""),
    ("step", "history_all_overhead_percent", "step overhead of PyTorch's own history, all stacks", "{:+.1f} %", ""),
    ("step", "recorded_rss_mib", "resident memory that the recorder adds", "{:+.0f} MiB", ""),
    ("step", "history_all_rss_mib", "resident memory that PyTorch's own history adds", "{:+.0f} MiB", ""),
    ("file", "bytes_an_event", "bytes an event on disk", "{:.2f}", "4"),
    ("file", "report_events_per_s", "events/s of the whole `gpumemshim report`", "{:,.0f}", ""),
    ("file", "replay.replay_events_per_cpu_s", "events/s of the replay, a core (10 M events, LZ4)", "{:,.0f}", "20,000,000"),
    ("symbols", "none.wall_s.median", "`gpumemshim report` of a short GPT training, native frames without names", "{:.2f} s", ""),
    ("symbols", "cold.wall_s.median", "the same with names, nothing cached (libtorch of 900 MB)", "{:.2f} s", ""),
    ("symbols", "cached.wall_s.median", "the same with names out of the cache", "{:.2f} s", ""),
    ("symbols", "cold.rss_mib", "peak memory of the cold one", "{:.0f} MiB", ""),
    ("symbols", "cached.rss_mib", "peak memory of the cached one", "{:.0f} MiB", ""),
    ("symbols", "torch_snapshot.seconds", "PyTorch's own snapshot of that training, all stacks", "{:.2f} s", ""),
    ("symbols", "torch_snapshot.rss_mib", "memory that it adds", "{:+.0f} MiB", ""),
    ("startup", "added_ms", "start-up of a process that never uses CUDA", "{:+.2f} ms", "0.3 ms"),
)


def figure(results, part, path):
    value = results.get(part)
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def spread_note(results):
    """A recorder does not make a program faster: what a negative overhead means, and by how much the runs differed. None without one."""
    step = results.get("step", {})
    if step.get("overhead_percent", 0) >= 0:
        return None
    runs = [f"{step[name]['min']:.1f} to {step[name]['max']:.1f} ms" for name in ("plain_ms", "recorded_ms")]
    return f"The step overhead was not resolved on this machine: steps took {runs[0]} without and {runs[1]} with the recorder from run to run."


def rows(answer):
    step_bar = "+5 %" if answer["simulated"] else "+1 %"
    for part, path, name, form, bar in ROWS:
        value = figure(answer["results"], part, path)
        if value is not None:
            yield f"| {name} | {form.format(value)} | {bar.format(step_bar=step_bar)} |"


def render(answer):
    host = answer["host"]
    where = "simulated CUDA" if answer["simulated"] else host["device"]
    head = f"Measured {answer['date']} on {where}; {host['cores']} cores, {host['cpu']}; torch {host['torch']}, Python {host['python']}."
    if answer["simulated"]:
        head += " Simulated: kernels take no time, so a step is pure CPU work and nothing hides the recorder's cost."
    if answer["quick"]:
        head += " A quick run: too few rounds to quote."
    lines = [head, "", "| measure | result | bar |", "|---|---|---|", *rows(answer)]
    note = spread_note(answer["results"])
    lines += ["", note] if note else []
    errors = [f"- {part} failed: {result['error'].splitlines()[0]}" for part, result in answer["results"].items() if "error" in result]
    return "\n".join(lines + ([""] + errors if errors else [])) + "\n"

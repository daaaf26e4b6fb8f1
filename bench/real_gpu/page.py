# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""docs/real-gpu-histories.md from the catalogue and the stored results.

    text = render(catalogue.load(), results)      # results: what bench/real_gpu/run stored
"""

HEAD = """\
<!-- Written by bench/real_gpu/run page; change bench/real_gpu/page.py instead. -->

# Histories of real GPUs

{summary}

Nothing on this page was measured by us on a GPU. Others recorded their programs with `torch.cuda.memory._record_memory_history` on theirs and published
the files; we ran the programs, or the requests in the files, again on [simulated CUDA](../simcuda/README.md). Their files and scripts are not part of
this repository. What is committed are numbers: kind, bytes and stream of each event, and the final segments (`bench/real_gpu/facts`).

Three witnesses are held against each GPU: PyTorch's own history of the re-run, event by event (kind, requested bytes, stream, order); the trace that our
recorder wrote of the same run, in which each free must end the same block; and what the analyzer reads from that trace as allocated and reserved at the
end of the history. Run {dates} on two cores without a GPU; all answers are in `bench/results/real-gpu-histories.json`.

## The same program

"Same" compares the sequence of events: yes, or "but frees" where only the order within unbroken runs of frees differs. The peak is that of requested
bytes above the beginning. Segments are the final ones by size; blocks, those in them. "Ours" is our own program of the same model, which needs nothing of
others; the tests run some of these every day.

{scripts}

## The requests alone

For every history, with a script or without, the recorded requests go through the real allocator of PyTorch {torches}, on simulated CUDA: the program's
allocations, its frees, its `empty_cache`. What must come out by itself: each segment asked of CUDA or given back, each failure, and where each block
lies. What a program had before its history began is rebuilt from the final segments, backwards. Placement counts the allocations that lie in the same
segment at the same offset, twice: with simulated CUDA's model of the driver's addresses, and with each new segment placed where it lay on the GPU. The
segments of the beginning lie where they lay in both. A block in an expandable segment has no such place.

*Imported* is another matter: `gpumemshim import` reads the author's file as a trace, in which events, the block that each free ends, and allocated and reserved
bytes at the end must be those of the file as ten lines of Python read it. They are, in {imported} files.

*Replayed* is what a user gets: `gpumemshim replay --check` on the author's file. It is exact where the recorded settings, replayed, give every segment of the
history in order and with its size, from where the history begins; {exact} files are, and the peak of reserved bytes is equal in {peaks}. Of {empty}
files whose history begins empty, {empty_exact} are exact.

{allocator}

## What differs, and why

{why}

## Run it again

    bench/real_gpu/run own --torch 2.11.0=.venv/bin/python
    bench/real_gpu/run script --checkouts DIR --torch 2.11.0=PYTHON --torch 2.6.0=PYTHON --torch 2.5.1=PYTHON --torch 2.11.0/3.12=PYTHON
    bench/real_gpu/run allocator --histories DIR --torch 2.11.0=PYTHON
    bench/real_gpu/run replay --histories DIR --torch 2.11.0=PYTHON
    bench/real_gpu/run import --histories DIR
    bench/real_gpu/run page

`bench/real_gpu/histories.toml` names for each history the repository, commit, path and git object of its file, the author's script with its arguments,
and the device as it was simulated: where its model is not known, one of its class. Around a script only this differs: initial values on the host are left out, and the snapshot's name is ours.
"""

CAUSES = {
    "order": "Autocast empties its cache of converted weights in the order of a hash table of host pointers, which differs from run to run. "
    "Which cached block is found next depends on it, and so may segments.",
    "segments": "Of two free blocks of one size PyTorch takes the one at the lower address, and the driver chose other addresses.",
    "beginning": "What a block took that was there before the history and is freed in it is not in the file: up to a megabyte beyond the request. Where the guess "
    "is wrong, later blocks lie elsewhere, even with the GPU's addresses.",
}


def ratio(count, whole):
    return f"{count} of {whole}"


def answers(histories, results, part):
    """[(history, answer)] of what is stored."""
    return [(history, stored[part]["answer"]) for history in histories if part in (stored := results["histories"].get(history.name, {}))]


def same(answer):
    history = answer["history"]
    return "yes" if history["identical"] else "but frees" if history["identical_but_order_of_frees"] else f"{history['equal']:,} of {history['events']:,}"


def yes(value):
    return "yes" if value else "**no**"


def short(part, answer):
    if part in ("script", "own"):
        words = f"{same(answer)}; peak {yes(answer['history']['peak_equal'])}; segments {yes(answer['history']['segments_equal'])}; trace {yes(answer['trace']['identical'])}"
        return words.replace("**", "")
    if part == "allocator":
        found = [f"sequence {yes(each['sequence_identical'])}, placement {placement(each)}" for one in answer.values() for each in one.values()]
        return "; ".join(found).replace("**", "")
    if part == "replay":
        return f"exact {yes(answer['exact'])}, peak {yes(answer['peak_equal'])}".replace("**", "")
    if part == "import":
        return f"events {yes(answer['identical'])}, ends {yes(answer['ends_equal'])}".replace("**", "")
    return "written"


def why(history, answer):
    """The cause of what differs, in a few words."""
    words = [history.note] if history.note else []
    if not answer["history"]["identical"] and answer["history"]["identical_but_order_of_frees"]:
        words.append("autocast's cache")
    elif not answer["history"]["segments_equal"] or not answer["history"]["layout_equal"]:
        words.append("addresses")
    return "; ".join(words)


def agrees(answer):
    """The analyzer says of the end what the GPU's own snapshot says."""
    return answer["analyzer"]["allocated_equal"] and answer["analyzer"]["reserved_equal"]


def segments(answer):
    history = answer["history"]
    if history["segments_equal"]:
        return "yes"
    return f"**no** ({(history['reserved_ours'] - history['reserved']) / history['reserved']:+.2%})".replace("%", " %")


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)])


def link(history):
    return f"[{history.title}](https://github.com/{history.repository}/blob/{history.commit}/{history.path.replace(' ', '%20')})"


def script_rows(histories, results):
    own = {history.name: answer for history, answer in answers(histories, results, "own")}
    for history, answer in answers(histories, results, "script"):
        mine = own.get(history.name)
        yield (
            history.repository.split("/")[0],
            link(history),
            history.gpu,
            f"{history.recorded_with} / {answer['torch']}",
            f"{answer['history']['events']:,}",
            same(answer),
            yes(answer["history"]["peak_equal"]),
            segments(answer),
            yes(answer["history"]["layout_equal"]),
            "yes" if answer["trace"]["identical"] else "but frees" if answer["trace"]["identical_but_order_of_frees"] else "**no**",
            yes(agrees(answer)),
            same(mine) if mine else "",
            why(history, answer),
        )


def placement(answer):
    place = answer.get("placement")
    return "" if not place else "yes" if place["identical"] else f"{place['equal']:,} of {place['allocations']:,}"


def replays(histories, results):
    """[(history, device, simulated, imposed)]"""
    return [(history, device, one["simulated"], one["imposed"]) for history, answer in answers(histories, results, "allocator") for device, one in answer.items()]


def calls(answer):
    words = f"{answer['cuda_calls']:,}"
    return words + (f", {answer['failures']} failed" if answer["failures"] else "")


def allocator_rows(histories, results):
    read = {history.name: answer for history, answer in answers(histories, results, "import")}
    exact = {history.name: answer["exact"] for history, answer in answers(histories, results, "replay")}
    for history, device, simulated, imposed in replays(histories, results):
        name = link(history) + (f", GPU {device}" if device != "0" else "")
        yield (
            history.repository.split("/")[0],
            name,
            history.recorded_with,
            f"{simulated['events']:,}",
            calls(simulated),
            yes(simulated["sequence_identical"]) if not simulated["died"] else f"**no**: {simulated['died']}",
            yes(simulated["segments_equal"]),
            placement(simulated),
            placement(imposed),
            yes(read[history.name]["identical"] and read[history.name]["ends_equal"]) if history.name in read else "",
            yes(exact[history.name]) if history.name in exact else "",
        )


def summary(histories, results):
    scripts = [answer for _, answer in answers(histories, results, "script")]
    counts = [sum(test(answer) for answer in scripts) for test in (
        lambda answer: answer["history"]["identical"],
        lambda answer: answer["history"]["identical_but_order_of_frees"],
        lambda answer: answer["history"]["peak_equal"],
        lambda answer: answer["history"]["segments_equal"],
        lambda answer: answer["trace"]["identical_but_order_of_frees"],
        agrees,
    )]  # fmt: skip
    events = sum(answer["history"]["events"] for answer in scripts)
    sources = len({history.repository for history, _ in answers(histories, results, "script")})
    replayed = replays(histories, results)
    placed = [(simulated, imposed) for _, _, simulated, imposed in replayed if "placement" in simulated]
    everywhere = len({history.repository for history, _, _, _ in replayed})
    return (
        f"Of {len(scripts)} programs of {sources} sources whose memory history a real GPU recorded ({events:,} events), {counts[0]} give the identical "
        f"sequence of events on simulated CUDA and {counts[1]} the same but for the order of frees; the peak is equal in {counts[2]}, the final segments in "
        f"{counts[3]}; our recorder's trace tells the same in {counts[4]}, and our analyzer reads the GPU's bytes at the end from {counts[5]}. "
        f"Of {len(replayed)} histories of {everywhere} sources whose requests went through PyTorch's allocator on simulated CUDA, "
        f"{sum(simulated['sequence_identical'] for _, _, simulated, _ in replayed)} give the identical sequence of segments and blocks, and every block lies "
        f"where it lay on the GPU in {ratio(sum(simulated['placement']['identical'] for simulated, _ in placed), len(placed))} with simulated addresses "
        f"and {ratio(sum(imposed['placement']['identical'] for _, imposed in placed), len(placed))} with the GPU's. "
        "What differs is said below, each with its cause."
    )


def causes(histories, results):
    scripts = answers(histories, results, "script")
    order = [answer for _, answer in scripts if not answer["history"]["identical"] and answer["history"]["identical_but_order_of_frees"]]
    rest = [history for history, answer in scripts if not answer["history"]["identical_but_order_of_frees"]]
    moved = [answer for history, answer in scripts if answer["history"]["identical"] and not (answer["history"]["segments_equal"] and answer["history"]["layout_equal"])]
    lines = [f"- Autocast's cache ({len(order)}). {CAUSES['order']}"]
    lines.append(f"- Addresses ({len(moved)}). {CAUSES['segments']} Requests, peak and sequence are the same; reserved bytes may differ a little, and allocated ones, since a block takes up to a megabyte more where no more would be left.")
    unlike = [f"{history.title} of {history.repository} ({placement(imposed)})" for history, _, _, imposed in replays(histories, results) if placement(imposed) not in ("", "yes")]
    if unlike:
        lines.append(f"- Beginnings ({len(unlike)}). {CAUSES['beginning']} So it is with {', '.join(unlike)}.")
    lines += [f"- {history.title} of {history.repository}. {history.note}." for history in rest]
    lines.append("- Placement with simulated addresses in the second table: addresses again. The driver's order is a model, and what else the program had mapped is not in a file.")
    lines.append("- Histories whose script is not public, or needs data that is not, are in the second table only.")
    return "\n".join(lines)


SCRIPT_HEAD = ("Source", "History", "GPU", "PyTorch there / here", "Events", "Same", "Peak", "Segments", "Blocks", "Our trace", "Analyzer", "Ours", "Remarks")
ALLOCATOR_HEAD = ("Source", "History", "PyTorch there", "Events", "CUDA calls", "Sequence", "Segments", "Placement", "Placement, GPU's addresses", "Imported", "Replayed")


def render(histories, results):
    torches = sorted({simulated["torch"] for _, _, simulated, _ in replays(histories, results)})
    dates = sorted({part["on"] for stored in results["histories"].values() for part in stored.values()})
    read = [answer for _, answer in answers(histories, results, "import")]
    again = {history.name: answer for history, answer in answers(histories, results, "replay")}
    begun = {}
    for history, _, simulated, _ in replays(histories, results):
        begun[history.name] = begun.get(history.name, True) and simulated["from_empty"]
    empty = [name for name in again if begun.get(name)]
    return HEAD.format(
        exact=ratio(sum(answer["exact"] for answer in again.values()), len(again)),
        peaks=ratio(sum(answer["peak_equal"] for answer in again.values()), len(again)),
        empty=len(empty),
        empty_exact=sum(again[name]["exact"] for name in empty),
        imported=ratio(sum(answer["identical"] and answer["ends_equal"] for answer in read), len(read)),
        dates=f"on {dates[0]}" if len(dates) == 1 else f"between {dates[0]} and {dates[-1]}",
        summary=summary(histories, results),
        scripts=table(SCRIPT_HEAD, script_rows(histories, results)),
        torches=" or ".join(torches),
        allocator=table(ALLOCATOR_HEAD, allocator_rows(histories, results)),
        why=causes(histories, results),
    )

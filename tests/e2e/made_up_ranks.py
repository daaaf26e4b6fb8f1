# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Jobs that nobody ran: summaries for `gpumemshim ranks`, and the same ranks as the tables of `gpumemshim export parquet`, as JSON that DuckDB makes Parquet of.

    job = made_up_ranks.random_job(random.Random(7))             # or varied(recorded summaries, 200, random.Random(7))
    (folder / "job.summary").write_text(job.summaries())
    job.copy_statements(folder)                                  # SQL for DuckDB: FOLDER/ranks/, steps/, processes/, blocks/
"""

import dataclasses
import json

MIB = 1 << 20
START_NS = 1_795_000_000_000_000_000
MAX_WINDOWS = 512
COLUMNS = {
    "ranks": "trace INTEGER, rank INTEGER, state VARCHAR, reason VARCHAR, hostname VARCHAR, local_rank INTEGER, pid BIGINT, device INTEGER, model_part INTEGER, measure VARCHAR, "
    "peak_allocated BIGINT, peak_reserved BIGINT, peak_total BIGINT, context BIGINT, communicator_bytes BIGINT, step_width BIGINT, steps BIGINT, last_step BIGINT, ended VARCHAR, "
    "last_event_unix_ns BIGINT, events BIGINT, lost_events BIGINT, oom_unix_ns BIGINT, oom_step BIGINT, summary_only BOOLEAN",
    "steps": "trace INTEGER, step BIGINT, complete BOOLEAN, peak_event BIGINT, peak_allocated BIGINT, peak_total BIGINT",
    "processes": "trace INTEGER, peak_event BIGINT",
    "blocks": "trace INTEGER, device INTEGER, layer VARCHAR, line VARCHAR, category VARCHAR, size BIGINT, step BIGINT, kept BOOLEAN, born_event BIGINT, died_event BIGINT",
}


@dataclasses.dataclass
class Job:
    """ranks: summaries as `gpumemshim ranks --write-summaries` writes them, but `steps` has every completed step; parts: number of the part of the model of each
    rank; others: rows of the table ranks without a rank of this job, and their summaries (None: missing)."""

    ranks: list
    parts: list
    others: list = dataclasses.field(default_factory=list)

    def summaries(self):
        lines = [coarse(rank) for rank in self.ranks] + [summary for _, summary in self.others if summary]
        return "".join(json.dumps(line) + "\n" for line in lines)

    def rows(self):
        """{table: [row]}."""
        made = {name: [] for name in COLUMNS}
        for trace, (rank, part) in enumerate(zip(self.ranks, self.parts)):
            made["ranks"].append(row_of(trace, rank, part))
            for step, allocated, total in rank["steps"]:
                made["steps"].append({"trace": trace, "step": step, "complete": True, "peak_event": step * 10, "peak_allocated": allocated, "peak_total": total})
            if rank["last_begun_step"] > rank["last_ended_step"]:
                made["steps"].append({"trace": trace, "step": rank["last_begun_step"], "complete": False, "peak_event": 1, "peak_allocated": 1 << 60, "peak_total": 1 << 60})
            made["processes"].append({"trace": trace, "peak_event": 10})
            made["blocks"] += blocks_of(trace, rank)
        made["ranks"] += [row for row, _ in self.others]
        return made

    def copy_statements(self, folder):
        """SQL for DuckDB that writes the tables as Parquet below `folder`, where the rows are put as JSON first."""
        statements = []
        for name, rows in self.rows().items():
            (folder / name).mkdir(parents=True)
            source = folder / f"{name}.json"
            source.write_text("".join(json.dumps(row) + "\n" for row in rows) or "\n")
            types = "{" + ", ".join(f"{column.split()[0]}: '{column.split()[1]}'" for column in COLUMNS[name].split(", ")) + "}"
            statements.append(f"COPY (SELECT * FROM read_json('{source}', columns = {types}, format = 'newline_delimited')) TO '{folder}/{name}/made-up.parquet' (FORMAT PARQUET, COMPRESSION ZSTD)")
        return statements


def coarse(rank):
    """The summary with at most 512 windows of steps, as the analyzer keeps them."""
    width, steps = 1, rank["steps"]
    while len({step // width for step, _, _ in steps}) > MAX_WINDOWS:
        width *= 2
    windows = {}
    for peak in steps:
        held = windows.setdefault(peak[0] // width, peak)
        if peak[2 if rank["of_total"] else 1] > held[2 if rank["of_total"] else 1]:
            windows[peak[0] // width] = peak
    return {**rank, "step_width": width, "steps": list(windows.values())}


def row_of(trace, rank, part):
    """The row of the table ranks of a summary, as gpumemshim export parquet writes it."""
    names = ("rank", "hostname", "local_rank", "pid", "communicator_bytes", "ended", "events", "lost_events")
    return {
        **{name: rank[name] for name in names},
        "trace": trace,
        "state": "damaged" if rank["damage"] else "present",
        "reason": rank["damage"] or None,
        "device": rank["device"] if rank["device"] >= 0 else None,
        "model_part": part,
        "measure": "total" if rank["of_total"] else "allocated",
        "peak_allocated": rank["peak_allocated_bytes"],
        "peak_reserved": rank["peak_reserved_bytes"],
        "peak_total": rank["peak_total_bytes"],
        "context": rank["context_bytes"],
        "step_width": coarse(rank)["step_width"],
        "steps": rank["complete_steps"],
        "last_step": rank["last_ended_step"],
        "last_event_unix_ns": rank["last_realtime_ns"] or None,
        "oom_unix_ns": rank["oom_realtime_ns"] or None,
        "oom_step": rank["oom_step"] or None,
        "summary_only": rank.get("summary_only", False),
    }


def blocks_of(trace, rank):
    """Three blocks that live as long as the program, one that is freed at its first event, and one of CUDA's own."""
    always = {"trace": trace, "device": max(rank["device"], 0), "layer": "torch", "kept": True, "born_event": 0, "died_event": None, "step": 1}
    return [
        {**always, "line": "a.py:1 f", "category": "parameter", "size": 1000 + rank["rank"]},
        {**always, "line": "a.py:1 f", "category": "parameter", "size": 24, "step": 2},
        {**always, "line": None, "category": "unknown", "size": 512},
        {**always, "line": "a.py:2 g", "category": "temporary", "size": 1 << 40, "died_event": 5, "kept": False},
        {**always, "line": "a.py:3 h", "category": "communication", "size": 1 << 30, "layer": "runtime"},
    ]


def summary(rank, ranks, steps, **changes):
    """A rank's summary with [step, allocated, total] of its completed steps."""
    last = steps[-1][0] if steps else 0
    made = {
        **dict(gpumem_rank_summary=2, trace_bytes=1, trace_changed_ns=1, file=f"r{rank}.gmtrace", rank=rank, rank_of_name=False, local_rank=rank % 8, hostname=f"node{rank // 8}"),
        **dict(job_id="made-up", program="train", world_size=ranks, pid=1000 + rank, start_ticks=1, start_realtime_ns=START_NS, last_realtime_ns=START_NS + 10**9 + rank),
        **dict(events=1_000_000, lost_events=0, damage="", device=rank % 8, capacity=80 << 30, communicator_bytes=0, context_bytes=400 * MIB, oom_realtime_ns=0, oom_step=0),
        **dict(refused_bytes=0, allocated_at_oom=0, of_total=False, ended="completed", step_width=1, complete_steps=len(steps), last_begun_step=last, last_ended_step=last, steps=steps),
        **dict(parameters=[], timeline=[], other_devices=[], ancestors=[], categories=[], peak_groups=[], step_ends=[], knows_peak_groups=False, other_peak_bytes=0),
        **dict(summary_only=False, steps_missed=False, events_before=0),
        "peak_allocated_bytes": max((step[1] for step in steps), default=5 * MIB),
        "peak_reserved_bytes": max((step[2] for step in steps), default=6 * MIB),
        "peak_total_bytes": max((step[2] for step in steps), default=6 * MIB),
    }
    return {**made, **changes}


def random_job(random):
    """A job of up to 40 ranks with whatever may happen: parts of the model, odd ranks, passing peaks, ranks that stop, damage, missing and foreign ranks, an
    out-of-memory, more than 512 steps, ranks without PyTorch's memory."""
    ranks, steps = random.choice((1, 2, 3, 8, 16, 40)), random.choice((0, 1, 2, 5, 24, 24, 700))
    parts = random.choice((1, 1, 2, 4)) if ranks >= 8 else 1
    sizes = [random.randrange(100 * MIB, 900 * MIB) for _ in range(parts)]
    odd = {random.randrange(ranks): random.choice((1.5, 1.03, 0.97, 0.5, 1.019)) for _ in range(random.choice((0, 1, 1, 3)))}
    spread, noise = random.choice((0, 0.004, 0.03)), random.choice((0, 0, 0.001, 0.05))
    made, numbers = [], []
    of_total = random.random() < 0.15
    kept = random.choice((1, 1, 1, 0.5, 0.1))  # the share of ranks that kept a trace
    for rank in range(ranks):
        if ranks > 2 and random.random() < 0.03:
            continue
        part = rank * parts // ranks
        numbers.append(part)
        base = sizes[part] * odd.get(rank, 1) * (1 + random.uniform(-spread, spread))
        done = random.choice((steps, steps, steps, steps, steps * 3 // 4, steps // 3)) if random.random() < 0.2 else steps
        peaks = []
        for step in range(1, done + 1):
            allocated = int(base * (1 + random.uniform(-noise, noise)) * (1.2 if random.random() < 0.01 else 1))
            peaks.append([step, allocated, allocated + random.choice((20, 20, 20, 60)) * MIB])
        changes = {"of_total": of_total and random.random() < 0.9, "parameters": [[1 + part, 1, 1000]] if parts > 1 else []}
        if random.random() < 0.04:
            changes["damage"] = "cut off"
        if random.random() < 0.04:
            changes.update(oom_realtime_ns=START_NS + random.randrange(10**6), oom_step=done, ended="out_of_memory")
        if random.random() < 0.03:
            changes["device"] = -1
        if random.random() < 0.3:
            changes["last_begun_step"] = done + 1
        changes["summary_only"] = random.random() >= kept
        made.append(summary(rank, ranks, peaks, **changes))
    return Job(made, first_seen(numbers), missing(made, ranks))


def first_seen(numbers):
    """Parts are numbered in the order in which ranks have them."""
    order = {}
    return [order.setdefault(number, len(order)) for number in numbers]


def missing(ranks, expected):
    here = {rank["rank"] for rank in ranks}
    return [({"rank": rank, "state": "missing"}, None) for rank in range(expected) if rank not in here]


def varied(recorded, ranks, random, odd=None):
    """A job of so many ranks like the recorded ones: each with a number, a host and peaks of its own, up to 0.4 % more or less. odd: (rank that is like the
    recorded rank with this number, that number)."""
    normal = [each for each in recorded if odd is None or each["rank"] != odd[1]]
    made = []
    for rank in range(ranks):
        like = next(each for each in recorded if each["rank"] == odd[1]) if odd is not None and rank == odd[0] else random.choice(normal)
        factor = 1 + random.uniform(-0.004, 0.004)
        changes = {name: int(like[name] * factor) for name in ("peak_allocated_bytes", "peak_reserved_bytes", "peak_total_bytes")}
        steps = [[step, int(allocated * factor), int(total * factor)] for step, allocated, total in like["steps"]]
        made.append({**like, **changes, "rank": rank, "world_size": ranks, "local_rank": rank % 8, "hostname": f"node{rank // 8}", "pid": 1000 + rank, "ancestors": [], "steps": steps})
    return Job(made, [0] * ranks)

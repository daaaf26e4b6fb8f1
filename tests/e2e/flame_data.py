# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Makes a flame page of made-up stacks, in the shape of a training: to look at the page, and to see how it does with many.

    flame_data.py --template build/release/analyzer/web/flame_page.html --nodes 100000 --out flame.html

The same arguments give the same page. analyzer/web/flame_data.h describes the format.
"""

import argparse
import json
import pathlib
import random

KINDS = ["user", "library", "torch", "stdlib", "import", "native", "merged"]


class Strings:
    def __init__(self):
        self.list, self.places = [], {}

    def add(self, text):
        return self.places.setdefault(text, len(self.list)) if text in self.places else self.append(text)

    def append(self, text):
        self.places[text] = len(self.list)
        self.list.append(text)
        return self.places[text]


def make_frames(strings, rng, count):
    columns = {name: [] for name in ("function", "file", "path", "line", "module", "kind")}
    words = "forward attention linear norm embed block loss step backward project gather scatter reduce split dropout softmax matmul".split()
    for i in range(count):
        kind = rng.choices(range(6), (30, 8, 30, 3, 4, 25))[0]
        name = f"{rng.choice(words)}_{rng.choice(words)}_{i}"
        native = kind == 5
        file = "" if native else f"{KINDS[kind]}/{rng.choice(words)}.py"
        row = (name, file, f"/job/{file}" if file else "", 0 if native else rng.randrange(1, 900), "libtorch_cuda.so" if native else "", kind)
        for column, value in zip(columns, row):
            columns[column].append(value if column in ("line", "kind") else strings.add(value))
    for column, value in zip(columns, ("(smaller stacks)", "", "", 0, "", 6)):
        columns[column].append(value if column in ("line", "kind") else strings.add(value))
    return columns


def make_nodes(rng, count, frames):
    """A tree that branches at all depths; sorted so that a parent comes before its children."""
    up, frame, depths = [], [], [0]
    for i in range(1, count):
        parent = max(0, i - 1 - int(rng.expovariate(1 / 6))) if depths[i - 1] < 40 else rng.randrange(max(0, i - 200), i)
        if depths[parent] > 60:
            parent = rng.randrange(0, 1 + i // 50)
        depths.append(depths[parent] + 1)
        up.append(i - parent)
        frame.append(rng.randrange(len(frames["line"])) if rng.random() > 0.02 else len(frames["line"]) - 1)
    return {"up": up, "frame": frame}


def make_view(rng, key, label, count, share, threads):
    nodes = sorted(rng.sample(range(1, count), int(count * share)))
    steps = [node - before for node, before in zip(nodes, [0, *nodes])]
    sizes = [512 * int(rng.paretovariate(0.9)) for _ in nodes]
    blocks = [1 + int(rng.expovariate(1 / 3)) for _ in nodes]
    thread = []
    for _ in nodes:
        which = rng.randrange(threads)
        if thread and thread[-2] == which:
            thread[-1] += 1
        else:
            thread += [which, 1]
    total = sum(sizes)
    return {"mode": key, "label": label, "meaning": f"made-up numbers of the view {key}", "counted": ["block", "blocks"],
            "moments": [{"device": 0, "measure": "allocated", "time_ns": 0, "text": f"{label} on GPU 0: {total:,} bytes, made up"}],
            "empty": "Nothing here.", "merged_bytes": 0, "merged_stacks": 0, "bytes": total, "count": sum(blocks),
            "rows": {"node": steps, "device": [0, len(nodes)], "thread": thread, "bytes": sizes, "count": blocks}}


def make(nodes, seed=1, threads=3):
    rng = random.Random(seed)
    strings = Strings()
    strings.add("")
    frames = make_frames(strings, rng, max(20, min(20000, nodes // 20)))
    views = [make_view(rng, *mode, nodes, share, threads) for mode, share in
             ((("peak", "Peak"), 0.2), (("leaks", "Alive at the end"), 0.05), (("total", "Total allocated"), 0.6), (("temporary", "Temporary"), 0.3))]
    about = {"program": "train_made_up", "generator": "flame_data.py", "simulated": True, "lossless": True,
             "facts": [{"lead": "process", "text": "process 4242 on host: made-up data", "level": "note"},
                       {"lead": "GPU 0", "text": "Test GPU, 64 GiB", "level": "note"}],
             "warnings": [{"lead": "merged", "text": "The smallest stacks were merged: made up.", "level": "note"}]}
    return {"schema_version": 3, "about": about, "start": {"mode": "peak", "invert": False, "flame": False, "split": "", "depth": 0, "device": 0},
            "views": views, "nodes": make_nodes(rng, nodes, frames), "frames": frames, "strings": strings.list,
            "devices": ["GPU 0 Test GPU"], "threads": [f"thread {4242 + i} worker" for i in range(threads)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--template", type=pathlib.Path, required=True)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    data = json.dumps(make(arguments.nodes), separators=(",", ":")).replace("<", "\\u003c")
    arguments.out.write_text(arguments.template.read_text(encoding="utf-8").replace("@DATA@", data), encoding="utf-8")


if __name__ == "__main__":
    main()

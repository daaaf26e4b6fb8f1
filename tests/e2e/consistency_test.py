#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""One question, one answer, whichever command is asked: peak, its moment, categories, the top line, and what is alive at the peak and at the end.

Every day four traces of the corpus (tests/corpus), with --full all of them.
"""

import collections
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

import truth

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "corpus"))
import corpus  # noqa: E402

SETUP = FULL = None
EVERY_DAY = ("fragmented", "two_devices", "serving", "lora")
BEYOND_BLOCKS = {"allocator_overhead", "context", "library"}  # categories of what is not in PyTorch's blocks


def titles(answer):
    """Category -> bytes of `table --by category`, which names them as people read them."""
    names = {"parameters": "parameter", "buffers": "buffer", "gradients": "gradient", "optimizer state": "optimizer_state", "activations": "activation",
             "temporaries": "temporary", "inputs": "input", "workspaces": "workspace", "kept tensors": "kept", "CUDA graph pool": "graph_pool", "KV cache": "kv_cache", "other libraries": "library"}  # fmt: skip
    return {names.get(row["name"], row["name"]): row["self_bytes"] for row in answer["rows"]}


def of_blocks(categories, measure):
    """Those that have bytes; where PyTorch's blocks are what is looked at, without what is not in them."""
    beyond = BEYOND_BLOCKS if measure == "allocated" else BEYOND_BLOCKS - {"library"}
    return {name: size for name, size in categories.items() if size and name not in beyond}


class Answers:
    """What the commands say of one trace. Each command is asked once."""

    def __init__(self, trace, folder):
        self.trace, self.folder = trace, folder
        self.environment = {**os.environ, "NO_COLOR": "1", "GPUMEMSHIM_INDEX_DIR": str(folder)}
        self.report = self.json("report")
        self.device = max(self.report["devices"], key=lambda each: each["peak"]["total_bytes"])
        self.number = str(self.device["device"])

    def text(self, *words):
        command = [str(SETUP.gpumem), *words[:1], str(self.trace), *words[1:]]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300)
        if done.returncode not in (0, 4):
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def json(self, command, *words):
        command = [str(SETUP.gpumem), command, *words, "--json", str(self.trace)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300)
        if done.returncode not in (0, 4):
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)

    def first_size(self, beginning, command, *words):
        """The first number of bytes in the line that begins so, as printed: "2.38 GiB"."""
        command = [str(SETUP.gpumem), command, *words, str(self.trace)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300)
        lines = [line for line in done.stdout.splitlines() if re.match(beginning, line)]
        return re.search(r": (\S+ \S+?)\b", lines[0]).group(1) if lines else None

    def sql(self, query):
        return json.loads(self.text("sql", query, "--format", "json"))["rows"]

    def snapshot_end(self):
        """Bytes of the active blocks of `export pytorch`, of the device."""
        path = self.folder / "end.pickle"
        command = [str(SETUP.gpumem), "export", "pytorch", str(self.trace), "-o", str(path)]
        subprocess.run(command, env=self.environment, capture_output=True, check=True, timeout=300)
        snapshot = pickle.loads(path.read_bytes())
        blocks = (block for segment in snapshot["segments"] if segment["device"] == self.device["device"] for block in segment["blocks"])
        return sum(block["size"] for block in blocks if block["state"] == "active_allocated")

    def facts(self):
        """Fact -> answer -> value."""
        device = ("--device", self.number)
        peak, at, end = self.json("peak", *device), self.json("at", "peak", *device), self.json("at", "end", *device)
        measure = peak["measure"]
        table, tree = self.json("table", *device), self.json("tree", *device)
        live = f"FROM live_at('peak') WHERE device = {self.number}"
        sql_lines = self.sql(f"SELECT line, sum(size)::BIGINT AS bytes {live} GROUP BY ALL ORDER BY bytes DESC LIMIT 1")
        sql_categories = self.sql(f"SELECT category, sum(size)::BIGINT AS bytes {live} GROUP BY ALL")
        sql_bytes = self.sql(f"SELECT coalesce(sum(size), 0)::BIGINT AS bytes {live}")[0]["bytes"]
        facts = collections.defaultdict(dict)
        facts["peak bytes"] = {
            "report": self.device["peak"][f"{measure}_bytes"], "peak": peak["bytes"], "at": at["values"][f"{measure}_bytes"], "table": table["view"]["bytes"],
            "tree": tree["nodes"][0]["bytes"], "sql": sql_bytes, "stacks of peak": sum(each["bytes"] for each in peak["stacks"]),
        }  # fmt: skip
        facts["headline of the peak"] = {"peak": self.first_size(r"^Peak \w+ on ", "peak", *device), "at": self.first_size(r"^Memory by category at the peak ", "at", "peak", *device)}
        facts["peak time"] = {"report": self.device["at_peak"]["time_ns"], "peak": peak["time_ns"], "at": at["time_ns"], "table": table["view"]["devices"][0]["time_ns"]}
        facts["blocks at the peak"] = {"report": self.device["at_peak"]["count"], "peak": peak["count"], "table": table["view"]["count"], "tree": tree["nodes"][0]["count"]}
        facts["categories"] = {
            "at": of_blocks(at["categories"], measure), "table": of_blocks(titles(self.json("table", "--by", "category", *device)), measure),
            "sql": of_blocks({row["category"]: row["bytes"] for row in sql_categories}, measure),
        }  # fmt: skip
        if self.report["attribution"] is not None and self.report["attribution"]["device"] == self.device["device"]:
            facts["categories"]["report"] = of_blocks(self.report["attribution"]["categories"], measure)
        by_site = collections.Counter()
        for stack in peak["stacks"]:
            by_site[stack["site"]] += stack["bytes"]
        facts["top line"] = {"peak": by_site.most_common(1)[0][1], "table": table["rows"][0]["self_bytes"], "sql": sql_lines[0]["bytes"] if sql_lines else 0}
        facts["bytes at the end"] = {
            "report": self.device["end"][f"{measure}_bytes"], "at": end["values"][f"{measure}_bytes"],
            "sql": self.sql(f"SELECT coalesce(sum(size), 0)::BIGINT AS bytes FROM live_at('end') WHERE device = {self.number}")[0]["bytes"],
        }  # fmt: skip
        if measure == "allocated":
            facts["bytes at the end"]["export pytorch"] = self.snapshot_end()
        return facts


def contradictions(facts):
    """What those say that say another thing than most."""
    for fact, said in facts.items():
        values = [json.dumps(value, sort_keys=True) for value in said.values()]
        usual = collections.Counter(values).most_common(1)[0][0]
        for answer, value in zip(said, values):
            if value != usual:
                yield f"{fact}: {answer} says {value}, others {usual}"


class Consistency(unittest.TestCase):
    maxDiff = None

    def test_all_answers_agree(self):
        names = tuple(corpus.CORPUS) if FULL else EVERY_DAY
        for name in names:
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="gpumemshim-consistency-") as folder:
                answers = Answers(corpus.record(name, SETUP), pathlib.Path(folder))
                self.assertEqual(list(contradictions(answers.facts())), [])


if __name__ == "__main__":
    FULL = "--full" in sys.argv
    SETUP, _, rest = truth.setup_of_tests()
    unittest.main(argv=[word for word in rest if word != "--full"])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""One question, one answer, whichever command is asked: peak, its moment, categories, the top line, and what is alive at the peak and at the end.

Every day four traces of the corpus (tests/corpus) and one of a real H100 (tests/e2e/h100), with --full all of them.
"""

import base64
import collections
import functools
import json
import lzma
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest
import zlib

import truth

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "corpus"))
import corpus  # noqa: E402

SETUP = FULL = None
EVERY_DAY = ("fragmented", "two_devices", "serving", "lora")
H100 = pathlib.Path(__file__).resolve().parent / "h100"
EVERY_DAY_H100 = ("21_cudagraph_train",)
BEYOND_BLOCKS = {"allocator_overhead", "context", "library"}  # categories of what is not in PyTorch's blocks


def category_of(title):
    """The key of a category that is named as people read it."""
    names = {"parameters": "parameter", "buffers": "buffer", "gradients": "gradient", "optimizer state": "optimizer_state", "activations": "activation",
             "temporaries": "temporary", "inputs": "input", "workspaces": "workspace", "kept tensors": "kept", "CUDA graph pool": "graph_pool", "KV cache": "kv_cache", "other libraries": "library"}  # fmt: skip
    return names.get(title, title)


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

    @functools.cache
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

    @functools.cached_property
    def page_at_peak(self):
        """(bytes by line, bytes by category) of PyTorch's blocks that `html` shows at the device's peak."""
        path = self.folder / "page.html"
        subprocess.run([str(SETUP.gpumem), "html", str(self.trace), "-o", str(path)], env=self.environment, capture_output=True, check=True, timeout=300)
        packed = max(re.findall(r"[A-Za-z0-9+/=]{200,}", path.read_text()), key=len)
        page = json.loads(zlib.decompress(base64.b64decode(packed), 47))["traces"][0]
        peak = next(each["peak_event"] for each in page["devices"] if each["device"] == self.device["device"])
        blocks, strings = page["blocks"], page["strings"]
        lines, categories = collections.Counter(), collections.Counter()
        born = 0
        for i, step in enumerate(blocks["born"]):
            born += step
            is_there = born <= peak < born + blocks["end"][i] and blocks["device"][i] == self.device["device"]
            if not is_there or strings[blocks["memory"][i]] != "":
                continue
            lines[strings[blocks["line"][i]]] += blocks["size"][i]
            categories[category_of(strings[blocks["category"][i]])] += blocks["size"][i]
        return lines, categories

    def facts(self):
        """Fact -> answer -> value."""
        device = ("--device", self.number)
        peak = self.json("peak", *device)
        return {**self.facts_of_peak(peak, *device), **self.facts_of_categories(peak, *device), **self.facts_of_end(peak["measure"], *device)}

    def live(self, moment, measure):
        """What SQL has of a moment; where PyTorch's blocks are what is looked at, without the memory of others."""
        return f"FROM live_at('{moment}') WHERE device = {self.number}" + (" AND layer = 'torch'" if measure == "allocated" else "")

    def facts_of_peak(self, peak, *device):
        measure, at, table, tree = peak["measure"], self.json("at", "peak", *device), self.json("table", *device), self.json("tree", *device)
        live = self.live("peak", measure)
        sql_lines = self.sql(f"SELECT line, sum(size)::BIGINT AS bytes {live} GROUP BY ALL ORDER BY bytes DESC LIMIT 1")
        facts = {}
        facts["peak bytes"] = {
            "report": self.device["peak"][f"{measure}_bytes"], "peak": peak["bytes"], "at": at["values"][f"{measure}_bytes"], "table": table["view"]["bytes"], "tree": tree["nodes"][0]["bytes"],
            "sql": self.sql(f"SELECT coalesce(sum(size), 0)::BIGINT AS bytes {live}")[0]["bytes"], "stacks of peak": sum(each["bytes"] for each in peak["stacks"]),
        }  # fmt: skip
        facts["headline of the peak"] = {"peak": self.first_size(r"^Peak \w+ on ", "peak", *device), "at": self.first_size(r"^Memory by category at the peak ", "at", "peak", *device)}
        facts["peak time"] = {"report": self.device["at_peak"]["time_ns"], "peak": peak["time_ns"], "at": at["time_ns"], "table": table["view"]["devices"][0]["time_ns"]}
        facts["blocks at the peak"] = {"report": self.device["at_peak"]["count"], "peak": peak["count"], "table": table["view"]["count"], "tree": tree["nodes"][0]["count"]}
        by_site = collections.Counter()
        for stack in peak["stacks"]:
            by_site[stack["site"]] += stack["bytes"]
        facts["top line"] = {"peak": by_site.most_common(1)[0][1], "table": table["rows"][0]["self_bytes"], "sql": sql_lines[0]["bytes"] if sql_lines else 0}
        if measure == "allocated":
            lines, _ = self.page_at_peak
            facts["peak bytes"]["html"] = sum(lines.values())
            facts["top line"]["html"] = max(lines.values())
        return facts

    def facts_of_categories(self, peak, *device):
        measure, facts = peak["measure"], {}
        by_category = "SELECT category, sum(size)::BIGINT AS bytes %s GROUP BY ALL"
        sql_of = lambda asked: of_blocks({row["category"]: row["bytes"] for row in self.sql(by_category % self.live("peak", asked))}, measure)  # noqa: E731
        facts["categories"] = {"at": of_blocks(self.json("at", "peak", *device)["categories"], measure), "sql": sql_of("total")}
        if self.report["attribution"] is not None and self.report["attribution"]["device"] == self.device["device"]:
            facts["categories"]["report"] = of_blocks(self.report["attribution"]["categories"], measure)
        table = self.json("table", "--by", "category", *device)["rows"]
        facts["categories of the measure"] = {"table": of_blocks({category_of(row["name"]): row["self_bytes"] for row in table}, measure), "sql": sql_of(measure)}
        if measure == "allocated":
            facts["categories of the measure"]["html"] = of_blocks(self.page_at_peak[1], measure)
        return facts

    def facts_of_end(self, measure, *device):
        end = self.json("at", "end", *device)
        said = {
            "report": self.device["end"][f"{measure}_bytes"], "at": end["values"][f"{measure}_bytes"],
            "sql": self.sql(f"SELECT coalesce(sum(size), 0)::BIGINT AS bytes {self.live('end', measure)}")[0]["bytes"],
        }  # fmt: skip
        if measure == "allocated":
            said["export pytorch"] = self.snapshot_end()
        return {"bytes at the end": said}


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

    def agree(self, trace, folder):
        self.assertEqual(list(contradictions(Answers(trace, pathlib.Path(folder)).facts())), [])

    def test_all_answers_agree(self):
        for name in tuple(corpus.CORPUS) if FULL else EVERY_DAY:
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="gpumemshim-consistency-") as folder:
                self.agree(corpus.record(name, SETUP), folder)

    def test_all_answers_agree_about_real_runs(self):
        names = sorted(path.name.removesuffix(".gmtrace.xz") for path in H100.glob("*.xz")) if FULL else EVERY_DAY_H100
        for name in names:
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="gpumemshim-consistency-") as folder:
                trace = pathlib.Path(folder) / f"{name}.gmtrace"
                trace.write_bytes(lzma.decompress((H100 / f"{name}.gmtrace.xz").read_bytes()))
                self.agree(trace, folder)


if __name__ == "__main__":
    FULL = "--full" in sys.argv
    SETUP, _, rest = truth.setup_of_tests()
    unittest.main(argv=[word for word in rest if word != "--full"])

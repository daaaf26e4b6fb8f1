# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Each format of `gpumemshim export` is opened by its reader where that can be had, and says what the report says: peak, totals, counts.

    python tests/e2e/export_test.py --build build/release
"""

import csv
import gzip
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import diff_pairs
import truth

SETUP = None

TOOL_FILES = (
    *("gpumemoryprofiler-json", "gpumemoryprofiler-log", "gpumemoryprofiler-timeline", "tinytorch-status", "tinytorch-log"),
    *("memorydebugger-snapshots", "memorydebugger-comparison", "memorydebugger-report", "memorydebugger-log"),
)

# Runs in the Python that has PyTorch: its own functions on our file, and the history replayed as its viewer does.
READ_SNAPSHOT = """
import importlib.util, json, pickle, sys, pathlib, torch
snapshot = pickle.load(open(sys.argv[1], "rb"))
from torch.cuda import _memory_viz as viz
assert "TOTAL MEM" in viz.trace(snapshot)
assert viz.segsum(snapshot)
live, now, peak, allocs = {}, 0, 0, 0
for event in snapshot["device_traces"][0]:
    if event["action"] == "alloc":
        allocs += 1
        assert event["addr"] not in live
        live[event["addr"]] = event["size"]
        now += event["size"]
    elif event["action"] == "free_completed":
        now -= live.pop(event["addr"])
    peak = max(peak, now)
blocks = {b["address"]: b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
assert all(sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in snapshot["segments"])
print(json.dumps({"peak": peak, "allocs": allocs, "live": sorted(live) == sorted(blocks),
    "allocated": sum(s["allocated_size"] for s in snapshot["segments"]), "reserved": sum(s["total_size"] for s in snapshot["segments"]),
    "frames": any(f["name"] == "train_step" for e in snapshot["device_traces"][0] for f in e["frames"])}))
"""


def varints(data):
    """(field, value) of a protobuf message; bytes for the fields that have a length."""
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        found.append((key >> 3, value))
    return found


class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-export-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.trace = diff_pairs.record(SETUP, cls.folder, diff_pairs.EVERY_DAY["leaked_tensor"], True, "--batch", "4", "--length", "256", "--steps", "8")
        cls.report = truth.report(SETUP, cls.trace)
        cls.device = cls.report["devices"][0]

    def export(self, format_, *options):
        path = self.folder / f"out.{format_}"
        truth.run([SETUP.gpumem, "export", format_, str(self.trace), "-o", str(path), *options], SETUP)
        return path

    def gpumem(self, *arguments, code):
        done = subprocess.run([SETUP.gpumem, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def peak(self):
        return self.device["peak"]["allocated_bytes"]

    def test_pytorch_opens_its_snapshot(self):
        command = [*SETUP.command("-c"), READ_SNAPSHOT, str(self.export("pytorch"))]
        read = json.loads(truth.run(command, SETUP, truth.environment_of(truth.Case("none"), SETUP)).splitlines()[-1])
        events = [json.loads(line) for line in self.export("jsonl", "--layer", "torch").read_text().splitlines()]
        self.assertEqual(read["allocs"], sum(event["kind"] == "alloc" for event in events))
        self.assertEqual((read["allocated"], read["reserved"]), (events[-1]["allocated_bytes"], events[-1]["reserved_bytes"]))
        self.assertTrue(read["live"] and read["frames"])
        self.assertTrue(0.9 * self.peak() < read["peak"] <= self.peak())  # its history has requested sizes

    def test_chrome_has_the_peak_and_the_steps(self):
        events = json.loads(self.export("chrome").read_text())["traceEvents"]
        counters = [event["args"] for event in events if event["ph"] == "C"]
        self.assertEqual(max(each["allocated"] for each in counters), self.peak())
        self.assertEqual(max(each["reserved"] for each in counters), self.device["peak"]["reserved_bytes"])
        self.assertEqual([event["name"] for event in events if event["ph"] == "X"][:8], [f"step {i}" for i in range(1, 9)])

    def test_perfetto_has_the_peak_and_the_steps(self):
        tracks, highest, begun, ended, sequences = {}, {}, [], 0, set()
        for field, packet in varints(self.export("perfetto").read_bytes()):
            self.assertEqual(field, 1)
            parts = dict(varints(packet))
            sequences.add(parts[10])
            if 60 in parts:
                described = dict(varints(parts[60]))
                tracks[described[1]] = described.get(2, b"").decode()
            elif 11 in parts:
                event = dict(varints(parts[11]))
                track = tracks[event[11]]
                if event[9] == 4:
                    highest[track] = max(highest.get(track, 0), event[30])
                begun += [event[23].decode()] if event[9] == 1 else []
                ended += event[9] == 2
        self.assertEqual((highest["GPU 0 allocated"], highest["GPU 0 reserved"]), (self.peak(), self.device["peak"]["reserved_bytes"]))
        self.assertEqual((begun[:8], ended), ([f"step {i}" for i in range(1, 9)], len(begun)))
        self.assertEqual(len(sequences), 1)

    def timeline(self, *options):
        return json.loads(gzip.decompress(self.export("hta", *options).read_bytes()))

    def test_hta_has_the_peak_by_category(self):
        now, at_peak = [0] * 8, [0] * 8
        for _, action, size, category in self.timeline():
            self.assertEqual(size > 0, action == 2)
            now[category] += size
            self.assertGreaterEqual(now[category], 0)
            if sum(now) > sum(at_peak):
                at_peak = list(now)
        self.assertEqual(sum(at_peak), self.peak())
        told = json.loads(self.gpumem("at", "peak", "--json", self.trace, code=0))["categories"]
        names = ("parameter", "optimizer_state", "input", "temporary", "activation", "gradient")
        self.assertEqual({name: told[name] for name in names}, dict(zip(names, at_peak)))

    def test_a_window_of_hta_begins_with_what_was_alive(self):
        part = self.timeline("--from", "step 3", "--to", "step 4")
        before = [entry for entry in part if entry[0] == -1]
        self.assertEqual(part[: len(before)], before)
        self.assertTrue(before and all(action == 1 for _, action, _, _ in before))
        lines = [json.loads(line) for line in self.export("jsonl", "--from", "step 3", "--to", "step 4").read_text().splitlines()]
        self.assertEqual(sum(size for _, _, size, _ in part), [line["allocated_bytes"] for line in lines if line["device"] == 0][-1])

    def test_openmetrics_are_gauges_that_say_the_peak(self):
        lines = self.export("openmetrics").read_text().splitlines()
        self.assertEqual(lines[-1], "# EOF")
        values = {}
        for line in lines[:-1]:
            if not line.startswith("#"):
                name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} ([0-9.]+)", line).groups()
                values.setdefault(name, {})[tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)))] = float(value)
        for measure in ("allocated", "reserved", "total"):
            self.assertEqual(list(values[f"gpumemshim_peak_{measure}_bytes"].values()), [self.device["peak"][f"{measure}_bytes"]])
        self.assertEqual(sum(values["gpumemshim_events"].values()), sum(self.report["events"][layer] for layer in ("torch", "runtime", "driver")))
        self.assertEqual([line for line in lines if line.startswith("# TYPE") and not line.endswith(" gauge")], [])
        self.assertIn("activation", {dict(labels)["category"] for labels in values["gpumemshim_peak_category_bytes"]})

    def test_files_of_other_tools_have_the_peak(self):
        events = json.loads(self.export("gpumemoryprofiler-json").read_text())
        self.assertEqual((list(events), len(events["参数更新"])), (["初始化", "参数更新", "峰值内存"], 8))
        self.assertEqual(events["峰值内存"][0]["max_allocated"] * 2**20, self.peak())
        status = json.loads(self.export("tinytorch-status").read_text())["devices"]["0"]
        self.assertEqual(status["statistics"]["max_utilization"], self.device["peak"]["total_bytes"] / self.device["capacity_bytes"] * 100)
        changes = json.loads(self.export("memorydebugger-comparison").read_text())
        self.assertEqual([each["to"] for each in changes], [*(f"step_{i}_end" for i in range(1, 9)), "final"])
        ends = [step["end_bytes"] for step in json.loads(self.gpumem("steps", "--json", self.trace, code=0))["steps"][:8]]
        self.assertEqual([each["gpu_changes"][0]["memory_change_mb"] * 2**20 for each in changes[1:8]], [b - a for a, b in zip(ends, ends[1:])])
        self.assertIn("[WARNING] 发现 1 个潜在内存泄漏:\n   GPU 0: ", self.export("tinytorch-log").read_text())

    def test_csv_and_json_lines_have_every_event(self):
        rows = list(csv.DictReader(self.export("csv").read_text().splitlines()))
        self.assertEqual(len(rows), self.report["events"]["total"] if "total" in self.report["events"] else len(rows))
        self.assertEqual(max(int(row["allocated_bytes"]) for row in rows), self.peak())
        lines = [json.loads(line) for line in self.export("jsonl").read_text().splitlines()]
        self.assertEqual([(int(row["time_ns"]), row["site"]) for row in rows], [(line["time_ns"], line["site"]) for line in lines])
        self.assertTrue(any("train_step" in row["site"] for row in rows))

    def test_rmm_replays_to_the_peak(self):
        live, now, peak = {}, 0, 0
        for row in csv.DictReader(self.export("rmm").read_text().splitlines()):
            if row["Action"] == "allocate":
                self.assertNotIn(row["Pointer"], live)
                live[row["Pointer"]] = int(row["Size"])
                now += int(row["Size"])
            else:
                self.assertEqual(live.pop(row["Pointer"]), int(row["Size"]))
                now -= int(row["Size"])
            peak = max(peak, now)
        self.assertEqual(peak, self.peak())

    def test_profiles_of_the_peak_sum_to_it(self):
        speedscope = json.loads(self.export("speedscope").read_text())
        profile = speedscope["profiles"][0]
        self.assertEqual((sum(profile["weights"]), profile["endValue"]), (self.peak(), self.peak()))
        self.assertLess(max(max(sample) for sample in profile["samples"]), len(speedscope["shared"]["frames"]))
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in self.export("collapsed").read_text().splitlines()), self.peak())
        fields = varints(self.export("pprof").read_bytes())
        samples = [varints(value) for field, value in fields if field == 2]
        strings = [value.decode() for field, value in fields if field == 6]
        self.assertEqual(sum([value for field, value in sample if field == 2][1] for sample in samples), self.peak())
        locations = {dict(varints(value))[1] for field, value in fields if field == 4}
        self.assertTrue(all(value in locations for sample in samples for field, value in sample if field == 1))
        self.assertEqual(strings[0], "")
        self.assertIn("inuse_space", strings)

    def test_standard_output_has_the_bytes_of_the_file(self):
        for format_ in ("pytorch", "perfetto", "hta", "pprof", "csv", "chrome", "gpumemoryprofiler-log"):
            done = subprocess.run([SETUP.gpumem, "export", format_, str(self.trace)], capture_output=True, timeout=120)
            expected = self.export(format_).read_bytes().replace(str(self.folder / f"out.{format_}").encode(), b"stdout")
            self.assertEqual((done.returncode, done.stdout), (0, expected), format_)

    def test_windows_and_sizes_bound_an_export(self):
        whole = self.export("jsonl").read_text().splitlines()
        part = [json.loads(line) for line in self.export("jsonl", "--from", "step 2", "--to", "step 3").read_text().splitlines()]
        self.assertTrue(0 < len(part) < len(whole))
        path = self.export("chrome", "--max-file-size", "300000")
        self.assertLess(path.stat().st_size, 2 << 20)
        json.loads(path.read_text())
        self.gpumem("export", "xml", self.trace, code=2)

    def test_the_snapshot_comes_back_by_import(self):
        snapshot = self.folder / "round.pickle"
        snapshot.write_bytes(self.export("pytorch").read_bytes())
        again = truth.report(SETUP, snapshot)["devices"][0]
        self.assertEqual((again["peak"]["allocated_bytes"], again["peak"]["reserved_bytes"]), (self.peak(), self.device["peak"]["reserved_bytes"]))
        for series in ("allocated_bytes", "reserved_bytes"):
            self.assertEqual(self.at_end(snapshot)[series], self.at_end(self.trace)[series])
        compared = json.loads(self.gpumem("diff", "--json", self.trace, snapshot, code=0))
        self.assertEqual(compared["delta_bytes"], 0)

    def at_end(self, trace):
        """What is behind the last event, by the exporter of lines."""
        path = self.folder / "end.jsonl"
        truth.run([SETUP.gpumem, "export", "jsonl", str(trace), "--layer", "torch", "-o", str(path)], SETUP)
        return json.loads(path.read_text().splitlines()[-1])

    def test_a_damaged_trace_is_exported_in_part(self):
        damaged = self.folder / "damaged.gmtrace"
        damaged.write_bytes(self.trace.read_bytes()[:-20000])
        for format_ in ("pytorch", "chrome", "perfetto", "hta", "csv", "jsonl", "rmm", "pprof", "speedscope", "collapsed", "openmetrics", *TOOL_FILES):
            self.gpumem("export", format_, damaged, "-o", self.folder / "part", code=4)
        damaged.unlink()


if __name__ == "__main__":
    truth.run_tests(globals())

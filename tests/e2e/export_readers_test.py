# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Exports of four trainings (a GPT, one that leaks, a convolutional network, LoRA) opened by the tools that they are for: peak, totals and counts read
back equal ours. Every day: PyTorch's own reader of snapshots, and its viewer's JavaScript under Node where GPUMEMSHIM_MEMORY_VIZ or torch/utils/viz has it.
With --full: Perfetto's schema, Holistic Trace Analysis, Prometheus's parsers and promtool, speedscope's schema, pyarrow, go tool pprof. What a machine
lacks is skipped, with the reason.

    python tests/e2e/export_readers_test.py --build build/release [--full]

The tools go into an environment under the build tree (scripts/requirements/readers.txt, 250 MB), removed at the end.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import diff_pairs
import export_test
import libraries_test
import truth

SETUP = None
READERS = None  # the Python that has the tools; None: every day
SMALL_GPT = ("--batch", "4", "--length", "256", "--steps", "4")


def record(name, folder):
    """The trace of one of the four trainings."""
    if name in ("gpt", "leak"):
        return diff_pairs.record(SETUP, folder, diff_pairs.EVERY_DAY["leaked_tensor"], name == "leak", *SMALL_GPT)
    program, arguments = {"conv": (diff_pairs.ROOT / "examples" / "train_conv.py", ("--batch", "8", "--steps", "3")), "lora": (truth.PROGRAMS / "lora.py", ())}[name]
    trace = folder / "run.gmtrace"
    truth.run(SETUP.recording(trace, *SETUP.command(program), *arguments), SETUP, truth.environment_of(truth.Case("none"), SETUP))
    return trace


class Exported:
    """One training: what gpumemshim says of it, and its files."""

    def __init__(self, name, folder):
        self.folder = folder / name
        self.folder.mkdir()
        self.trace = record(name, self.folder)
        self.report = truth.report(SETUP, self.trace)
        self.peak = self.report["devices"][0]["peak"]
        self.events = [json.loads(line) for line in self.export("jsonl").read_text().splitlines()]

    def export(self, format_):
        path = self.folder / ("tables" if format_ == "parquet" else f"out.{format_}")
        truth.run([SETUP.gpumem, "export", format_, str(self.trace), "-o", str(path)], SETUP)
        return path

    def blocks(self, kind):
        return [event for event in self.events if event["layer"] == "torch" and event["kind"] == kind]

    def requested_peak(self):
        """Of the sizes that PyTorch's history has: what was asked for."""
        live, now, peak = {}, 0, 0
        for event in self.events:
            if event["layer"] != "torch":
                continue
            if event["kind"] == "alloc":
                live[event["address"]] = event["requested_bytes"] or event["size_bytes"]
                now += live[event["address"]]
            elif event["kind"] == "free":
                now -= live.pop(event["address"], 0)
            peak = max(peak, now)
        return peak


def viewer_folder():
    for folder in filter(None, (os.environ.get("GPUMEMSHIM_MEMORY_VIZ"), *pathlib.Path(SETUP.python).parent.parent.glob("lib/python3*/site-packages/torch/utils/viz"))):
        if (pathlib.Path(folder) / "MemoryViz.js").exists():
            return str(folder)
    return None


class ReadersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-readers-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.exported = {name: Exported(name, cls.folder) for name in (("conv", "lora") if READERS is None else ("gpt", "leak", "conv", "lora"))}

    def each(self):
        for name, exported in self.exported.items():
            with self.subTest(program=name):
                yield exported

    def test_pytorch_reads_its_snapshot(self):
        for exported in self.each():
            command = [*SETUP.command("-c"), export_test.READ_SNAPSHOT, str(exported.export("pytorch"))]
            read = json.loads(truth.run(command, SETUP, truth.environment_of(truth.Case("none"), SETUP)).splitlines()[-1])
            end = exported.blocks("alloc")[-1] if not exported.blocks("free") else max((*exported.blocks("alloc")[-1:], *exported.blocks("free")[-1:]), key=exported.events.index)
            self.assertEqual((read["peak"], read["allocs"], read["live"]), (exported.requested_peak(), len(exported.blocks("alloc")), True))
            self.assertEqual((read["allocated"], read["reserved"]), (end["allocated_bytes"], end["reserved_bytes"]))

    def test_the_viewer_shows_the_peak(self):
        folder, node = viewer_folder(), shutil.which("node")
        if folder is None or node is None:
            self.skipTest("no node" if node is None else "no MemoryViz.js: this PyTorch's wheel lacks it; set GPUMEMSHIM_MEMORY_VIZ to a folder that has it")
        for exported in self.each():
            done = subprocess.run([node, str(truth.PROGRAMS / "memory_viz.mjs"), folder, str(exported.export("pytorch"))], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            read = json.loads(done.stdout.splitlines()[-1])
            allocs, frees = len(exported.blocks("alloc")), len(exported.blocks("free"))
            self.assertEqual((read["peak"], read["reserved_peak"]), (exported.requested_peak(), exported.peak["reserved_bytes"]))
            self.assertEqual((read["actions"]["alloc"], read["actions"]["free"], read["live"]), (allocs, frees, allocs - frees))


class FullReadersTest(ReadersTest):
    def test_each_tool_reads_the_peak(self):
        schema = self.schema_of_speedscope()
        for exported in self.each():
            for format_ in ("perfetto", "hta", "openmetrics", "speedscope"):
                exported.export(format_)
            has_tables = subprocess.run([SETUP.gpumem, "export", "parquet", str(exported.trace), "-o", str(exported.folder / "tables")], capture_output=True).returncode == 0
            command = [READERS, str(truth.PROGRAMS / "export_readers.py"), str(exported.folder), *([schema] if schema else [])]
            read = json.loads(truth.run(command, SETUP).splitlines()[-1])
            peak = exported.peak
            self.assertEqual(read["perfetto"]["highest"], {**read["perfetto"]["highest"], "GPU 0 allocated": peak["allocated_bytes"], "GPU 0 reserved": peak["reserved_bytes"]})
            self.assertEqual(read["perfetto"]["steps"][0], "step 1")
            end = [event for event in exported.events if event["device"] == 0][-1]["allocated_bytes"]
            self.assertEqual(read["hta"], {"peak": peak["allocated_bytes"], "end": end, "least": 0})
            for measure in ("allocated", "reserved", "total"):
                self.assertEqual(read["openmetrics"][f"gpumemshim_peak_{measure}_bytes"], peak[f"{measure}_bytes"])
            self.assertEqual(read["speedscope"], {"weights": peak["allocated_bytes"], "validated": schema is not None})
            if has_tables:
                self.assertEqual((read["parquet"]["peak"], read["parquet"]["ranks"]), (peak["allocated_bytes"], [-1]))
                self.assertGreaterEqual(read["parquet"]["events"], len(exported.events))

    def schema_of_speedscope(self):
        """Path of the file that its package has; None, with a line, where npm cannot get it."""
        npm = shutil.which("npm")
        if npm is not None and subprocess.run([npm, "pack", "--ignore-scripts", "speedscope@1.25.0"], cwd=self.folder, capture_output=True).returncode == 0:
            schema = "package/dist/release/file-format-schema.json"
            subprocess.run(["tar", "xzf", "speedscope-1.25.0.tgz", schema], cwd=self.folder, check=True)
            return str(self.folder / schema)
        print("not validated against speedscope's schema: npm cannot get it")
        return None

    def test_promtool_finds_nothing(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("no promtool (Debian: prometheus)")
        for exported in self.each():
            done = subprocess.run([promtool, "check", "metrics"], input=exported.export("openmetrics").read_text(), capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_go_reads_the_profile(self):
        go = shutil.which("go")
        command = [go, "tool", "pprof"] if go else [shutil.which("pprof")]
        if command[0] is None:
            self.skipTest("no go and no pprof (Debian: golang-go)")
        for exported in self.each():
            text = truth.run([*command, "-top", "-unit=B", "-sample_index=inuse_space", str(exported.export("pprof"))], SETUP)
            self.assertEqual(re.search(r"of (\d+)B total", text).group(1), str(exported.peak["allocated_bytes"]))


def main():
    global SETUP, READERS
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    SETUP, arguments, (program, *rest) = truth.setup_of_tests(parser)
    environment = SETUP.build / "readers"
    if arguments.full:
        libraries_test.install(environment, SETUP.python, "readers.txt")
        READERS = str(environment / "bin" / "python")
    try:
        chosen = ["FullReadersTest" if arguments.full else "ReadersTest"]
        return 0 if unittest.main(argv=[program, *rest, *chosen], exit=False).result.wasSuccessful() else 1
    finally:
        shutil.rmtree(environment, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

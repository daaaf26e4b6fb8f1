# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim report` on traces of torch.profiler: of our own program, against PyTorch's numbers and the trace that was recorded in the same run; and made-up
ones of which the answer follows from the file."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
MIB = 1 << 20
BASE = 0x7F0000000000


def ask(*command):
    with tempfile.TemporaryDirectory(prefix="gpumemshim-profiler-") as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        return subprocess.run([SETUP.gpumem, *map(str, command)], env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def report_of(path):
    return json.loads(ask("report", "--json", path).stdout)


def bytes_by_function(report):
    """{function: bytes} of the lines of the program's own file at the peak."""
    found = {}
    for stack in report["devices"][0]["at_peak"]["stacks"]:
        site = stack["site"].split(" ")
        if site[-1] == "workspace":  # of a library, which C++ frames tell: a profile has the function that called it
            site = next(([frame["file"], frame["function"]] for frame in stack["frames"] if "profiled_whole.py" in frame["file"]), [""])
        name = site[1].rsplit(".", 1)[-1] if "profiled_whole.py" in site[0] else ""
        found[name] = found.get(name, 0) + stack["bytes"]
    return found


def memory(time, size, total, reserved, address, device=0):
    args = {"Device Type": 1, "Device Id": device, "Bytes": size, "Addr": address, "Total Allocated": total, "Total Reserved": reserved}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": args}


def operator(time, duration, name):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": time, "dur": duration, "args": {}}


class OwnProfileTest(unittest.TestCase):
    maxDiff = None

    def run_program(self, folder, *options):
        trace, profile = folder / "run.gmtrace", folder / "run.json"
        command = SETUP.recording(trace, *SETUP.command(truth.PROGRAMS / "profiled_whole.py"), str(profile), *options)
        return trace, profile, truth.last_json_line(truth.run(command, SETUP, dict(os.environ)))

    def check(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            trace, profile, numbers = self.run_program(pathlib.Path(folder), *options)
            recorded, imported = report_of(trace), report_of(profile)
        device = imported["devices"][0]
        self.assertEqual([device["peak"]["allocated_bytes"], device["peak"]["reserved_bytes"], device["end"]["allocated_bytes"]], [numbers["peak"], numbers["reserved"], numbers["end"]])
        self.assertEqual(device["peak"]["allocated_bytes"], recorded["devices"][0]["peak"]["allocated_bytes"])
        self.assertEqual(imported["ground"]["segments"], False)
        self.assertNotIn(imported["verdict"]["kind"], ("growing", "fragmented", "out_of_memory"))
        return recorded, imported

    def test_functions_hold_what_the_recorder_says(self):
        recorded, imported = self.check("stack")
        # What autograd's engine does beside its nodes has no forward pass.
        self.assertEqual({name: size for name, size in bytes_by_function(imported).items() if name}, {name: size for name, size in bytes_by_function(recorded).items() if name})

    def test_operators_without_lines(self):
        _, imported = self.check()
        sites = {stack["site"] for stack in imported["devices"][0]["at_peak"]["stacks"]}
        self.assertIn("aten::linear (no Python frame)", sites)


class MadeUpTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, events, **more):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(json.dumps({"schemaVersion": 1, **more, "traceEvents": events}))
        return path

    def test_operators_of_one_pass_are_no_growth(self):
        events = []
        for i in range(40):
            events += [operator(10 * i, 8, "aten::layer_norm"), memory(10 * i + 4, MIB, (i + 1) * MIB, 64 * MIB, BASE + i * MIB)]
        report = report_of(self.write("pass.json", events))
        self.assertEqual((report["verdict"]["kind"], report["leak_loops"]), ("fits", []))

    def test_free_memory_inside_segments_is_not_known(self):
        events = [memory(1, 8 * MIB, 8 * MIB, 4096 * MIB, BASE), memory(2, -8 * MIB, 0, 4096 * MIB, BASE)]
        path = self.write("reserved.json", events, deviceProperties=[{"id": 0, "name": "G", "totalGlobalMem": 4200 * MIB}])
        self.assertIn("8 MiB allocated, 4 GiB reserved", ask("report", path).stdout)
        self.assertNotIn("FRAGMENTED", ask("report", path).stdout)
        self.assertIn("Not known: this file says how much PyTorch reserved (4 GiB at most), and not where", ask("fragmentation", path).stdout)
        self.assertIsNone(json.loads(ask("fragmentation", "--json", path).stdout)["devices"][0]["fragmentation"]["at_peak"]["empty_cache_bytes"])
        self.assertIn("nobody recorded PyTorch's segments", ask("explain", path).stdout)

    def test_profiles_of_ranks_are_one_job(self):
        for rank in range(2):
            events = [memory(1, (rank + 1) * MIB, (rank + 1) * MIB, 2 * MIB, BASE, device=rank)]
            self.write(f"host_{100 + rank}.17{rank}.pt.trace.json", events, distributedInfo={"backend": "nccl", "rank": rank, "world_size": 2})
        paths = sorted(pathlib.Path(self.folder.name).iterdir())
        answer = json.loads(ask("ranks", "--json", *paths).stdout)
        self.assertEqual([(rank["rank"], rank["peak_allocated_bytes"]) for rank in answer["ranks"]], [(0, MIB), (1, 2 * MIB)])
        self.assertEqual(answer["others"] if "others" in answer else [], [])

    def test_what_is_cut_is_said(self):
        path = self.write("cut.json", [memory(1, 8 * MIB, 8 * MIB, 20 * MIB, BASE)])
        path.write_bytes(path.read_bytes()[:-9])
        done = ask("report", path)
        self.assertEqual(done.returncode, 3)
        self.assertIn("cut short, at byte", done.stderr)


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim replay` on simulated CUDA: the recorded settings replayed give what was recorded, and what-ifs are what a real run under that setting needs.

    python tests/e2e/replay_test.py --build build/release [--full]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import truth

SETUP, FULL = None, False
RECORDED = tempfile.TemporaryDirectory(prefix="gpumemshim-replay-recorded-")
KNOWN = {}  # each start of PyTorch costs seconds, so a run is recorded once
EXPANDABLE = "expandable_segments:True"
SETTINGS = (EXPANDABLE, "max_split_size_mb:32", "roundup_power2_divisions:4", "backend:cudaMallocAsync", "garbage_collection_threshold:0.6")


def recorded(program, conf="", devices=1):
    """(trace, PyTorch's own numbers) of a run of the program under these settings."""
    key = program, conf, devices
    if key not in KNOWN:
        trace = pathlib.Path(RECORDED.name) / f"{len(KNOWN)}.gmtrace"
        case = truth.Case(program, {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}, devices=devices)
        KNOWN[key] = trace, truth.record(case, SETUP, trace)
    return KNOWN[key]


def replay(*arguments, python=None):
    command = [SETUP.gpumem, "replay", "--json", "--torch", python or SETUP.python, *map(str, arguments)]
    environment = truth.environment_of_plans(SETUP, GPUMEMSHIM_SIMCUDA=str(truth.ROOT / "simcuda"))
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)


def answer(done):
    if not done.stdout.startswith("{"):
        raise AssertionError(f"no answer, exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


class ReplayTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-replay-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def is_exact(self, program, conf="", devices=1):
        trace, numbers = recorded(program, conf, devices)
        done = replay("--check", trace)
        got = answer(done)
        self.assertEqual((done.returncode, got["exact"], got["first_difference"], got["doubts"]), (0, True, None, []), program)
        mine = [{key: run[key] for key in ("segments", "segments_given_back", "retries", "failed_requests")} for run in (got["recorded"], got["replayed"])]
        self.assertEqual(mine[0], mine[1])
        self.assertGreater(mine[0]["segments"], 0)
        for device in numbers["devices"]:
            of = {each["device"]: each for each in got["replayed"]["devices"]}[device["device"]]
            self.assertEqual((of["peak_reserved_bytes"], of["peak_allocated_bytes"]), (device["max_memory_reserved"], device["max_memory_allocated"]))
        return got

    def equals_real_runs(self, program, settings, *flags):
        trace, _ = recorded(program)
        got = answer(replay(*(word for conf in settings for word in ("--conf", conf)), *flags, trace))
        self.assertTrue(got["exact"], got)
        self.assertEqual([run["settings"] for run in got["what_ifs"]], list(settings))
        for run in got["what_ifs"]:
            with self.subTest(program=program, settings=run["settings"]):
                self.assertIsNone(run["error"])
                _, numbers = recorded(program, run["settings"])
                self.assertEqual(run["devices"][0]["peak_reserved_bytes"], numbers["devices"][0]["max_memory_reserved"])
        return got

    def test_a_real_run_under_the_setting_needs_the_same(self):
        self.equals_real_runs("conv.py", ("roundup_power2_divisions:4",))

    def test_oom_and_fragmentation_take_what_would_have_been_from_it(self):
        """To the page, what PyTorch serves in a real run under the other setting."""
        trace = pathlib.Path(self.folder) / "oom.gmtrace"
        environment = {**truth.environment_of(truth.Case("none"), SETUP), "SIMCUDA_MEM_MB": "2048"}
        command = SETUP.command(truth.PROGRAMS / "oom_pinned.py")
        truth.run(SETUP.recording(trace, *command), SETUP, environment)
        served = truth.last_json_line(truth.run([*command, "probe"], SETUP, {**environment, "PYTORCH_CUDA_ALLOC_CONF": EXPANDABLE}))["fits"]
        with_replay = truth.environment_of_plans(SETUP, GPUMEMSHIM_SIMCUDA=str(truth.ROOT / "simcuda"), GPUMEMSHIM_INTERPRETER=SETUP.python)
        asked = json.loads(truth.run([SETUP.gpumem, "oom", "--json", trace], SETUP, with_replay))
        self.assertEqual((asked["what_if"]["replayed"], asked["what_if"]["exact"]), (True, True), asked["what_if"])
        self.assertEqual(asked["what_if"]["other"]["settings"], EXPANDABLE)
        self.assertEqual((asked["ooms"][-1]["fit_expandable_bytes"], asked["ooms"][-1]["fit_expandable_basis"]), (served, "replay"))
        self.assertIn("by replay in PyTorch", truth.run([SETUP.gpumem, "fragmentation", trace], SETUP, with_replay))
        estimated = truth.run([SETUP.gpumem, "oom", "--no-replay", trace], SETUP, with_replay)
        self.assertIn("estimate: with expandable segments", estimated)
        self.assertNotIn("by replay", estimated)
        nowhere = {**with_replay, "GPUMEMSHIM_SIMCUDA": self.folder}
        self.assertIn("An estimate, since nothing was replayed", truth.run([SETUP.gpumem, "oom", trace], SETUP, nowhere))

    def test_captured_graphs(self):
        self.is_exact("graphs.py")

    def test_a_request_that_failed(self):
        got = self.is_exact("oom_caught.py")
        self.assertEqual(got["replayed"]["failed_requests"], got["recorded"]["failed_requests"])
        self.assertGreater(got["replayed"]["retries"], 0)

    def test_settings_that_do_not_get_to_the_end(self):
        trace, numbers = recorded("gpt.py")
        memory = 2 << 30  # of which the context takes a part
        self.assertGreater(numbers["devices"][0]["max_memory_allocated"], memory)
        got = answer(replay("--memory", f"{memory}B", "--conf", EXPANDABLE, "--conf", "no_such_setting:1", trace))
        as_recorded, expandable, refused = got["what_ifs"]
        for run in (as_recorded, expandable):
            self.assertIsNone(run["error"])
            self.assertIsNotNone(run["out_of_memory"], run)
            self.assertLess(run["requests_done"], got["requests"])
        self.assertIn("no_such_setting", refused["error"])

    def test_kept_traces_are_traces(self):
        got = self.equals_real_runs("two_streams.py", (EXPANDABLE,), "--keep", os.path.join(self.folder, "kept"))
        kept = got["what_ifs"][0]["trace"]
        peak = truth.report(SETUP, kept)["devices"][0]["peak"]["reserved_bytes"]
        self.assertEqual(peak, got["what_ifs"][0]["devices"][0]["peak_reserved_bytes"])
        again = replay("--check", kept)
        self.assertEqual((again.returncode, answer(again)["exact"]), (0, True), again.stderr)

    def test_why_there_is_no_answer(self):
        nothing = pathlib.Path(self.folder) / "async.gmtrace"
        truth.record(truth.Case("two_streams.py", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, blocks=False), SETUP, nothing)
        done = replay(nothing)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("backend:cudaMallocAsync", done.stderr)
        trace, _ = recorded("conv.py")
        done = replay(trace, python="/bin/sh")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--torch", done.stderr)
        self.assertEqual(replay("--memory", "nothing", trace).returncode, 2)

    def test_a_trace_whose_end_is_lost(self):
        trace, _ = recorded("conv.py")
        cut = pathlib.Path(self.folder) / "cut.gmtrace"
        cut.write_bytes(trace.read_bytes()[: trace.stat().st_size * 2 // 3])
        done = replay("--check", cut)
        self.assertIn(done.returncode, (1, 4), done.stderr)
        self.assertFalse(answer(done)["exact"])


class FullReplayTest(ReplayTest):
    def test_every_program(self):
        for program, devices in (("gpt.py", 1), ("conv.py", 1), ("two_streams.py", 1), ("fragmented.py", 1), ("empty_cache.py", 1), ("two_devices.py", 2)):
            with self.subTest(program=program):
                self.is_exact(program, devices=devices)
        for conf in SETTINGS[:3]:
            with self.subTest(conf=conf):
                self.is_exact("gpt.py", conf)

    def test_five_settings_of_four_programs(self):
        for program in ("gpt.py", "conv.py", "two_streams.py", "fragmented.py"):
            self.equals_real_runs(program, SETTINGS)


def main():
    global SETUP, FULL
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    unittest.main(argv=rest, defaultTest="FullReplayTest" if FULL else "ReplayTest")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Summaries that the recorder has written (GPUMEMSHIM_SUMMARY): what they say is what `gpumemshim ranks --write-summaries` says of the same trace, the last
one is there after a kill, and a program never notices.

    python tests/hosts/summaries_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import pathlib
import stat
import subprocess
import tempfile
import time
import unittest

import oom_test  # first: hosts_test puts another folder with such a file in front

import hosts_test

RANK = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
SOME = "kept = [malloc(3 * MIB) for _ in range(20)]\n"


class SummaryHost(oom_test.OomHost):
    def summaries(self):
        return sorted(self.folder.glob("*.summary"))

    def the_summary(self):
        (path,) = self.summaries()
        return json.loads(path.read_text(encoding="utf-8"))


class Ends(SummaryHost):
    def test_a_rank_has_what_the_command_would_write(self):
        self.run_script(SOME, GPUMEMSHIM_SUMMARY="on", **RANK)
        own = self.the_summary()
        self.assertEqual((own["rank"], own["world_size"], own["ended"], own["peak_total_bytes"]), (1, 2, "completed", 20 * oom_test.MIB * 3))
        self.summaries()[0].unlink()
        # Of one rank of two: exit code 4.
        done = subprocess.run([self.setup.gpumem, "ranks", "--write-summaries", str(self.the_trace())], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(own, self.the_summary())

    def test_the_end_waits_for_one_only_where_it_is_asked_for(self):
        """By default who reads the trace makes it, and the end of the program starts nothing."""
        for environment, expected in ((RANK, 0), ({"RANK": "0", "WORLD_SIZE": "1"}, 0), ({**RANK, "GPUMEMSHIM_SUMMARY": "off"}, 0), ({"GPUMEMSHIM_SUMMARY": "on"}, 1)):
            with self.subTest(environment=environment):
                self.run_script(SOME, GPUMEMSHIM_OUTPUT="run.gmtrace", **environment)
                self.assertEqual(len(self.summaries()), expected)

    def test_the_first_reader_renews_what_the_end_left_as_it_was(self):
        self.run_script(SOME, GPUMEMSHIM_SUMMARY="on", **RANK)
        trace = self.the_trace()
        fresh = self.the_summary()
        os.utime(trace, ns=(0, fresh["trace_changed_ns"] + 1_000_000_000))  # as if it had grown since
        for _ in range(2):
            done = subprocess.run([self.setup.gpumem, "ranks", "--json", str(trace)], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertEqual(self.the_summary(), {**fresh, "trace_changed_ns": fresh["trace_changed_ns"] + 1_000_000_000})
        self.summaries()[0].unlink()
        subprocess.run([self.setup.gpumem, "ranks", str(trace)], capture_output=True, text=True, timeout=120)
        self.assertEqual(self.summaries(), [], "beside a trace that has none it writes none")

    def test_a_program_that_closes_every_descriptor_meanwhile(self):
        """A summary each second, and all numbers are closed and used again all the while: no byte of ours is in the program's own files."""
        churn = """
kept = [malloc(3 * MIB) for _ in range(20)]
own = []
stop = time.monotonic() + 600
while not glob.glob("*.summary") or len(own) < 50:
    assert time.monotonic() < stop, "no summary"
    os.closerange(3, 1024)
    own = [os.open(f"own{i}", os.O_RDWR | os.O_CREAT) for i in range(50)]
    runtime.cudaFree(malloc(4096))
    time.sleep(0.01)
"""
        self.run_script("import glob, os, time\n" + churn, GPUMEMSHIM_SUMMARY="1s", **RANK)
        self.assertEqual({path.stat().st_size for path in self.folder.glob("own*")}, {0})
        self.assertEqual(len(list(self.folder.glob("own*"))), 50)
        self.assertEqual(self.the_summary()["rank"], 1)

    def test_of_a_series_there_is_one(self):
        churn = "for _ in range(30000):\n    runtime.cudaFree(malloc(4096))\n"
        self.run_script(churn, GPUMEMSHIM_OUTPUT="run.gmtrace", GPUMEMSHIM_MAX_SIZE="512k", GPUMEMSHIM_SUMMARY="on", **RANK)
        self.assertGreater(len(self.traces()), 1)
        self.assertEqual([path.name for path in self.summaries()], ["run.gmtrace.summary"])
        self.assertGreater(self.the_summary()["trace_bytes"], max(trace.stat().st_size for trace in self.traces()), "the stamp is of all files")

    def test_a_value_without_sense_is_told_and_does_no_harm(self):
        done = self.run_script(SOME, GPUMEMSHIM_SUMMARY="10x", **RANK)
        self.assertIn("gpumemshim: GPUMEMSHIM_SUMMARY=10x is ignored: it may be on, off, or an interval such as 90s, 10m, 1h", done.stderr)
        self.assertNotIn("ignored", self.run_script(SOME, GPUMEMSHIM_SUMMARY="10x", GPUMEMSHIM_QUIET="1", **RANK).stderr)

    def test_without_an_analyzer(self):
        missing = {"GPUMEMSHIM_PROGRAM": "/nowhere/gpumemshim", "GPUMEMSHIM_QUIET": "1"}
        self.assertEqual(self.run_script(SOME, **missing, **RANK).stderr, "", "nobody asked for a summary")
        self.assertEqual(self.run_script(SOME, GPUMEMSHIM_SUMMARY="on", **missing, **RANK).stderr.count("the program gpumemshim was not found"), 1)
        self.assertEqual(self.summaries(), [])


class SummariesAlone(SummaryHost):
    OTHERS = {"GPUMEMSHIM_RANKS": "0,rand:0"}

    def folders(self):
        return list(pathlib.Path(self.ring_folder).glob("gpumemshim-summary.*"))

    def test_other_ranks_leave_a_summary_and_nothing_else(self):
        done = self.run_script(SOME, **RANK, **self.OTHERS)
        self.assertEqual((self.traces(), self.folders()), ([], []))
        summary = self.the_summary()
        self.assertEqual((summary["summary_only"], summary["ended"], summary["peak_total_bytes"]), (True, "completed", 20 * oom_test.MIB * 3))
        self.assertIn(f"only their summary is kept, in ./{self.summaries()[0].name}. Next: gpumemshim ranks", done.stderr)
        self.run_script(SOME, **{**RANK, "RANK": "0"}, **self.OTHERS)
        self.assertEqual(len(self.traces()), 1)
        done = subprocess.run([self.setup.gpumem, "ranks", "--json", str(self.folder)], capture_output=True, text=True, timeout=600)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["present_ranks"], answer["summary_only_ranks"], answer["verdict"]), (2, [1], "balanced"))

    def test_memory_is_bounded_and_the_summary_whole(self):
        # Some 460 KiB, in batches of any size: equal sizes would compress to so little that the limit may not be reached.
        churn = SOME + "for i in range(60000):\n    runtime.cudaFree(malloc(i * 2654435761 % 4096 + 1))\n"
        self.run_script(churn, GPUMEMSHIM_MAX_SIZE="128k", **RANK, **self.OTHERS)
        summary = self.the_summary()
        self.assertGreater(summary["events_before"], 0, "files were removed")
        self.assertEqual((summary["peak_total_bytes"], summary["ended"]), (20 * oom_test.MIB * 3 + 4096, "completed"))
        self.assertEqual(self.folders(), [])

    def test_two_processes_that_want_one_name_have_a_summary_each(self):
        for _ in range(2):
            self.run_script(SOME, GPUMEMSHIM_OUTPUT="run.gmtrace", **RANK, **self.OTHERS)
        self.assertEqual([path.name for path in self.summaries()], ["run.1.gmtrace.summary", "run.gmtrace.summary"])

    def test_beside_a_device_there_is_no_summary(self):
        """It goes where the trace would."""
        with tempfile.TemporaryDirectory(prefix="gpumemshim-devices-") as devices:
            try:
                os.mknod(f"{devices}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            except OSError as error:
                self.skipTest(f"no device can be made here: {error}")
            self.run_script(SOME, GPUMEMSHIM_OUTPUT=f"{devices}/null", TMPDIR=str(self.folder), **RANK, **self.OTHERS)
            self.assertEqual(os.listdir(devices), ["null"])
        self.assertEqual(len(self.summaries()), 1)

    def test_a_killed_rank_leaves_its_last_summary(self):
        script = SOME + "while True:\n    runtime.cudaFree(malloc(MIB))\n    time.sleep(0.01)\n"
        environment = self.environment(**self.settings(GPUMEMSHIM_SUMMARY="1s", **RANK, **self.OTHERS))
        with subprocess.Popen(self.command(script), cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as host:
            while not any(path.stat().st_size for path in self.summaries()):  # the test's time limit is the only one
                time.sleep(0.05)
            host.kill()
        self.assertEqual((self.the_summary()["ended"], self.the_summary()["summary_only"]), ("running", True))
        (left,) = self.folders()
        old = time.time() - 1000
        for path in (*left.iterdir(), left):
            os.utime(path, (old, old))
        self.run_script(SOME, **{**RANK, "RANK": "5"}, **self.OTHERS)
        self.assertEqual(self.folders(), [], "the next one on the host cleans up")

    def test_a_list_without_sense_records_all(self):
        done = self.run_script(SOME, GPUMEMSHIM_RANKS="0;7", **RANK)
        self.assertIn("gpumemshim: GPUMEMSHIM_RANKS=0;7 is ignored: it may be a list of ranks to record in full", done.stderr)
        self.assertEqual(len(self.traces()), 1)


class Killed(SummaryHost):
    def test_the_last_one_stands_and_says_until_when(self):
        script = SOME + "say(pid=os.getpid())\nwhile True:\n    runtime.cudaFree(malloc(MIB))\n    time.sleep(0.01)\n"
        environment = self.environment(**self.settings(GPUMEMSHIM_SUMMARY="1s", **RANK))
        with subprocess.Popen(self.command(script), cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as host:
            while not self.summaries():
                time.sleep(0.05)
            time.sleep(0.3)
            killed_ns = time.time_ns()
            host.kill()
        summary = self.the_summary()
        self.assertEqual((summary["ended"], summary["rank"]), ("running", 1))
        self.assertGreater(summary["last_realtime_ns"], summary["start_realtime_ns"])
        self.assertLess(summary["last_realtime_ns"], killed_ns)
        # The trace knows more, so it is asked.
        done = subprocess.run([self.setup.gpumem, "ranks", "--json", str(self.folder)], capture_output=True, text=True, timeout=600)
        (rank,) = json.loads(done.stdout)["ranks"]
        self.assertGreater(rank["total_events"], summary["events"])
        self.assertEqual(rank["ended"], "killed")


if __name__ == "__main__":
    hosts_test.main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Traces on a shared file system that is slow, hangs, or fails midway: the program goes on and ends as if it were not recorded, and every event is in the
trace or counted.

    python tests/hosts/slow_files_test.py --build build/release --hosts build/release/tests/hosts
"""

import errno
import json
import re
import subprocess
import unittest

import oom_test  # first: hosts_test puts another folder with such a file in front

import hosts_test

CALLS = 40_000  # of cudaMalloc and cudaFree together
CHURN = f"""
for i in range({CALLS // 4}):
    runtime.cudaFree(malloc(4096))
"""
SMALL_RING = "512K"


class SlowFiles(oom_test.OomHost):
    def run_slow(self, script, mode, exit_code=0, **more):
        gate = self.folder / "gate"
        environment = self.environment(**self.settings(SLOW_FILES=mode, SLOW_FILES_GATE=str(gate), GPUMEMSHIM_OUTPUT="run.gmtrace", **more))
        environment["LD_PRELOAD"] = f"{environment['LD_PRELOAD']}:{hosts_test.HOSTS / 'libpreload_slow_files.so'}"
        script = f"GATE = {str(gate)!r}\n{script}"
        done = subprocess.run(self.command(script), cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return done.stderr

    def events_and_lost(self, stderr):
        found = re.search(r"gpumemshim: ([\d,]+) events? .* ([\d,]+) lost", stderr)
        self.assertIsNotNone(found, stderr)
        return [int(number.replace(",", "")) for number in found.groups()]

    def check_all_counted(self, stderr):
        """Of every call that the program made, and the few that CUDA's runtime did for it."""
        events, lost = self.events_and_lost(stderr)
        self.assertAlmostEqual(events + lost, CALLS, delta=10)
        return events, lost

    def test_a_write_that_hangs_holds_nobody_up(self):
        # The gate opens when all is done: if the program waited for the write, it would never come there.
        stderr = self.run_slow(CHURN + CHURN + "open(GATE, 'w').close()", "wait", GPUMEMSHIM_RING_SIZE=SMALL_RING)
        _, lost = self.check_all_counted(stderr)
        self.assertGreater(lost, 0, "the ring is small")
        answer = json.loads(subprocess.run([self.setup.gpumem, "report", "--json", "run.gmtrace"], cwd=self.folder, capture_output=True, text=True, timeout=120).stdout)
        self.assertGreater(answer["losses"]["dropped_allocs"] + answer["losses"]["dropped_frees"], 0, "the trace says it, too")

    def test_a_large_ring_loses_nothing_meanwhile(self):
        stderr = self.run_slow(CHURN + CHURN + "open(GATE, 'w').close()", "wait", GPUMEMSHIM_RING_SIZE="64M", SLOW_FILES_FROM="2")
        self.assertEqual(self.check_all_counted(stderr)[1], 0)

    def test_a_write_that_hangs_for_good_does_not_keep_the_program(self):
        stderr = self.run_slow(CHURN + CHURN, "wait", SLOW_FILES_FROM="2")
        self.assertRegex(stderr, r"gpumemshim: the trace's file system did not take its end within 2 s: [\d,]+ events are in .*run\.gmtrace")

    def test_slow_writes(self):
        self.check_all_counted(self.run_slow(CHURN + CHURN, "delay:300"))

    def test_errors_midway(self):
        for number in (errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT):
            for mode in (f"{number}", f"half:{number}"):
                with self.subTest(mode=mode, error=errno.errorcode[number]):
                    (self.folder / "run.gmtrace").unlink(missing_ok=True)
                    stderr = self.run_slow(CHURN + "time.sleep(0.3)\n" + CHURN, mode, SLOW_FILES_FROM="3")
                    events, lost = self.check_all_counted(stderr)
                    self.assertGreater(events, 0)
                    self.assertGreater(lost, 0)
                    done = subprocess.run([self.setup.gpumem, "report", "--json", "run.gmtrace"], cwd=self.folder, capture_output=True, text=True, timeout=120)
                    self.assertIsNone(json.loads(done.stdout)["damage"], "half a packet was taken back")

    def test_an_error_that_passes(self):
        stderr = self.run_slow(CHURN + "time.sleep(2.5)\n" + CHURN, str(errno.EIO), SLOW_FILES_FROM="3", SLOW_FILES_TO="4")
        events, lost = self.check_all_counted(stderr)
        self.assertGreater(events, CALLS // 2, "it was tried again")
        answer = json.loads(subprocess.run([self.setup.gpumem, "report", "--json", "run.gmtrace"], cwd=self.folder, capture_output=True, text=True, timeout=120).stdout)
        self.assertEqual(answer["losses"]["unwritten_events"] > 0, lost > 0)


if __name__ == "__main__":
    hosts_test.main()

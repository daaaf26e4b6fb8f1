# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A ring that is too small for the program, whose trace's file system hangs until the program is done: what is said of its peak holds, and is said to be the
least that it was.

    python tests/e2e/lost_events_test.py --build build/release
"""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "small_ring.py"


class LostEventsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpumemshim-lost-")
        self.addCleanup(self.folder.cleanup)
        self.trace = pathlib.Path(self.folder.name) / "run.gmtrace"
        slow = {"LD_PRELOAD": str(SETUP.build / "tests" / "hosts" / "libpreload_slow_files.so"), "SLOW_FILES": "wait", "SLOW_FILES_FROM": "2"}
        slow["SLOW_FILES_GATE"] = str(pathlib.Path(self.folder.name) / "gate")
        environment = truth.environment_of(truth.Case("none", {"GPUMEMSHIM_RING_SIZE": "256K", **slow}), SETUP)
        self.said = truth.last_json_line(truth.run(SETUP.recording(self.trace, *SETUP.command(PROGRAM)), SETUP, environment))
        done = self.gpumem("report", "--json", str(self.trace))
        self.report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 4)

    def gpumem(self, *arguments):
        return subprocess.run([SETUP.gpumem, *arguments], cwd=self.folder.name, capture_output=True, text=True, timeout=SETUP.timeout_s)

    def test_peaks_hold(self):
        (device,) = self.report["devices"]
        peak, lost = device["peak"], self.report["losses"]["total"]
        dump = self.gpumem("export", "packets", str(self.trace)).stdout
        for what in ("allocated", "reserved"):
            stated = max(int(total) for total in re.findall(rf"torch_{what}_bytes: (\d+)", dump))
            self.assertGreaterEqual(peak[f"{what}_bytes"], stated)
            self.assertLessEqual(peak[f"{what}_bytes"], self.said[what])
        for point in device["timeline"]:
            self.assertLessEqual(point["allocated_bytes"], peak["allocated_bytes"])
        print(f"  {lost} lost, {peak['allocated_bytes']} of {self.said['allocated']} bytes, {peak['bound']}")
        self.assertGreater(lost, 0)
        self.assertEqual(peak["bound"], "at_least")
        self.assertEqual(self.report["verdict"]["kind"], "unknown")
        self.assertRegex(self.report["verdict"]["peak"], "^at least ")
        if self.report["verdict"]["problem"] is None:
            self.assertRegex(self.report["verdict"]["action"], "^not known, events are missing: this program left at most ")
        else:  # what was kept may look like growth
            self.assertRegex(self.report["verdict"]["problem"], "^not sure, events are missing: ")
        checks = {limit: self.gpumem("check", str(self.trace), "--max-peak", limit, "--json") for limit in ("1KiB", "1GiB")}
        self.assertEqual({limit: check.returncode for limit, check in checks.items()}, {"1KiB": 1, "1GiB": 7})
        self.assertEqual([json.loads(check.stdout)["checks"][0]["at_least"] for check in checks.values()], [True, True])
        table = json.loads(self.gpumem("diff", "--table", str(self.trace), str(self.trace), "--json").stdout)
        self.assertEqual([run["peak_bound"] for run in table["runs"]], ["at_least"] * 2)


if __name__ == "__main__":
    truth.run_tests(globals())

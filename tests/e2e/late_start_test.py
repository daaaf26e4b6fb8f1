# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Recording begins in a program that runs: what existed before is in all numbers, and peaks and ends are those of PyTorch's own counters.

    python tests/e2e/late_start_test.py --build build/release [--full]
"""

import json
import pathlib
import subprocess
import tempfile
import time
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "late_start.py"
RARER = ("test_once", "test_expandable_segments", "test_attached", "test_all_of_four_ranks")  # each is a part of one with more spans, or fewer ranks


class LateStartTest(unittest.TestCase):
    def run_program(self, spans, way="ctl", **variables):
        environment = {**truth.environment_of(truth.Case("none", variables), SETUP), "GPUMEMSHIM_START": "off"}
        with tempfile.TemporaryDirectory(prefix="gpumemshim-late-") as folder:
            environment["XDG_RUNTIME_DIR"] = folder
            trace = pathlib.Path(folder) / "run.gmtrace"
            if way != "ctl":
                environment.pop("GPUMEMSHIM_START")
                options = ["-o", str(trace)] if way == "attach" else [str(trace)]
                environment["GPUMEMSHIM_LIBRARY"] = str(SETUP.build / "lib" / "libgpumemshim.so")
                environment["PYTHONPATH"] += f":{truth.ROOT / 'python'}"
                command = [*SETUP.command(PROGRAM), str(SETUP.gpumem), way, str(spans), *options]
            else:
                command = SETUP.recording(trace, *SETUP.command(PROGRAM), str(SETUP.gpumem), "ctl", str(spans))
            said = json.loads(truth.run(command, SETUP, environment).splitlines()[-1])
            report = truth.report(SETUP, trace)
        self.assertEqual(report["losses"]["total"], 0, report["losses"])
        return said, report

    def check(self, spans, way="ctl", **variables):
        said, report = self.run_program(spans, way, **variables)
        (device,) = report["devices"]
        ours = {f"{when}_{what}": device[when][f"{what}_bytes"] for when in ("peak", "end") for what in ("allocated", "reserved")}
        self.assertEqual(ours, said["counters"])
        existing = report["recording"]["existing"]
        self.assertTrue(report["recording"]["began_late"])
        self.assertEqual([start["known"] for start in existing], [True] * spans)
        for start in existing:
            self.assertGreater(start["blocks"], 60)
            self.assertGreater(start["reserved_bytes"], start["allocated_bytes"])
            self.assertEqual(start["lost"], 0)
        self.assertIn("True" if way == "python" else "existed when recording began", said["said"][0])
        notes = " ".join(report["notes"])
        self.assertIn("known from its own snapshot", notes)
        for doubt in ("disagrees", "another size", "whose CUDA allocation was not recorded", "was not recorded", "never saw allocated"):
            self.assertNotIn(doubt, notes)

    def test_once(self):
        self.check(1)

    def test_switched_off_and_on(self):
        self.check(3)

    def test_expandable_segments(self):
        self.check(1, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_expandable_segments_switched_off_and_on(self):
        self.check(3, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_attached(self):
        """To a program that was started as any other: no preload, no variable."""
        self.check(1, way="attach")

    def test_attached_three_times(self):
        self.check(3, way="attach")

    def test_attached_to_expandable_segments(self):
        self.check(1, way="attach", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_attached_from_inside(self):
        self.check(3, way="python")

    def test_an_allocator_without_a_snapshot(self):
        """It is said, and nothing is guessed."""
        said, report = self.run_program(1, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        self.assertEqual([start["known"] for start in report["recording"]["existing"]], [False])
        self.assertIn("this allocator of PyTorch has no snapshot", said["said"][0])
        self.assertIn("this allocator of PyTorch has no snapshot", " ".join(report["notes"]))

    def test_nothing_may_run_in_python(self):
        said, report = self.run_program(1, GPUMEMSHIM_HELPER="0")
        self.assertEqual([start["known"] for start in report["recording"]["existing"]], [False])
        self.assertIn("nothing may run in the program's Python", said["said"][0])


class RanksTest(unittest.TestCase):
    def test_all_ranks_of_a_launcher(self):
        self.check(2)

    def test_all_of_four_ranks(self):
        self.check(4)

    def check(self, ranks):
        environment = truth.environment_of(truth.Case("none"), SETUP)
        with tempfile.TemporaryDirectory(prefix="gpumemshim-late-") as name:
            folder = pathlib.Path(name)
            environment["XDG_RUNTIME_DIR"] = name
            command = SETUP.command("-m") + ["torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", str(truth.PROGRAMS / "late_ranks.py"), name]
            launcher = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            deadline = time.monotonic() + 120
            while len(list(folder.glob("ready.*"))) < ranks and time.monotonic() < deadline and launcher.poll() is None:
                time.sleep(0.05)
            said = subprocess.run(
                [SETUP.gpumem, "attach", "--all-ranks", "--json", str(launcher.pid)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
            )
            (folder / "stop").touch()
            output, _ = launcher.communicate(timeout=120)
            self.assertEqual(launcher.returncode, 0, output)
            self.assertEqual(said.returncode, 0, said.stderr)
            counters = [json.loads(file.read_text()) for file in folder.glob("counters.*")]
            self.assertEqual({answer["pid"] for answer in json.loads(said.stdout)["processes"]}, {each["pid"] for each in counters})
            for each in counters:
                (trace,) = folder.glob(f"*.{each.pop('pid')}.*gmtrace")
                report = truth.report(SETUP, trace)
                (device,) = report["devices"]
                ours = {f"{when}_{what}": device[when][f"{what}_bytes"] for when in ("peak", "end") for what in ("allocated", "reserved")}
                self.assertEqual((ours, report["losses"]["total"]), (each, 0))


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

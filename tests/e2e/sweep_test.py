# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim sweep` says of each configuration what `gpumemshim plan` says of it alone, keeps what fails as a row, and goes on where it was ended.

    python tests/e2e/sweep_test.py --build build/release
"""

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "swept.py"
MIB = 1 << 20
FILES = ["memory_profile_results.json", "memory_profile_summary.csv", "detailed_memory_results.json", "memory_analysis_overview.png", "memory_heatmap.png",
         "detailed_memory_analysis.png", "operation_level_breakdown.png", "memory_timeline_config_1.png"]

RARER = ("test_a_fresh_process_each_says_the_same", "test_programs_with_workers_and_programs_that_are_no_python_script",
         "test_two_sweeps_of_one_directory", "test_a_changed_script_is_run_again", "test_on_a_gpu_of_its_own",
         "test_switches_variables_modules_and_conditions", "test_imports_that_cannot_be_made_before_a_fork")


class Swept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-sweep-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, **more):
        return truth.environment_of_plans(SETUP, **{"RUNS": str(self.folder / "runs"), **more})

    def command(self, *options, program=()):
        program = program or [SETUP.python, str(PROGRAM), "--batch-size", "1"]
        return [str(word) for word in [SETUP.gpumem, "sweep", *options, "--", *program]]

    def run_sweep(self, *options, expected=0, environment=(), program=()):
        done = subprocess.run(self.command(*options, program=program), cwd=self.folder, env=self.environment(**dict(environment)), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout

    def sweep(self, *options, **more):
        return json.loads(self.run_sweep("--json", "--no-files", *options, **more))

    def plan(self, *program, options=(), environment=()):
        done = subprocess.run([SETUP.gpumem, "plan", "--json", "--no-what-if", "-o", "alone.gmtrace", *options, "--", SETUP.python, PROGRAM, *map(str, program)],
                              cwd=self.folder, env=self.environment(RUNS=str(self.folder / "alone"), **dict(environment)), capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        return json.loads(done.stdout)

    def runs(self):
        return [json.loads(line) for line in (self.folder / "runs").read_text().splitlines()]

    def assert_same_as_alone(self, row, *program, **more):
        peak = self.plan(*program, **more)["peak"]
        self.assertEqual(row["peak_allocated_bytes"], peak["allocated_bytes"], row["values"])
        self.assertLessEqual(abs(row["peak_reserved_bytes"] - peak["reserved_bytes"]), 2 * MIB, row["values"])


class Answers(Swept):
    def test_each_row_is_what_a_plan_of_it_alone_says(self):
        answer = self.sweep("--axis", "batch-size=64,4096", "--axis", "width=256,1024", "--device", "l40s", program=[SETUP.python, PROGRAM, "--batch-size", "{batch-size}", "--width", "{width}"])
        rows = answer["configurations"]
        self.assertEqual([tuple(row["values"].values()) for row in rows], [(64, 256), (64, 1024), (4096, 256), (4096, 1024)])
        self.assertEqual({row["state"] for row in rows}, {"fits"})
        for row in rows[1:3]:  # that would have each other's peak, were the axes mixed up
            self.assert_same_as_alone(row, "--batch-size", row["values"]["batch-size"], "--width", row["values"]["width"], options=["--device", "l40s"])
        for row in rows[1:3]:
            self.assertGreater(row["peak_allocated_bytes"], rows[0]["peak_allocated_bytes"])
            self.assertGreater(rows[3]["peak_allocated_bytes"], row["peak_allocated_bytes"])

    def test_a_run_finds_itself_as_in_a_process_of_its_own(self):
        self.sweep("--axis", "batch-size=2,4,6")
        self.plan("--batch-size", "2")
        alone = json.loads((self.folder / "alone").read_text())
        runs = sorted(self.runs(), key=lambda run: run["batch_size"])
        self.assertEqual(len({run["parent"] for run in runs}), 1, "one process imported for all of them")
        self.assertEqual({key: value for key, value in runs[0].items() if key != "parent"}, {key: value for key, value in alone.items() if key != "parent"})
        self.assertEqual([run["argv"][-1] for run in runs], ["2", "4", "6"])
        for run in runs:
            self.assertEqual(run["imported_with"], run["argv"])
            self.assertFalse(run["initialized"])

    def test_a_fresh_process_each_says_the_same(self):
        forked = self.sweep("--axis", "batch-size=64,128")
        (self.folder / "runs").unlink()
        fresh = self.sweep("--axis", "batch-size=64,128", "--fresh", "--no-fork", "-j", "2")
        self.assertEqual(len({run["parent"] for run in self.runs()}), 1)  # that of gpumemshim itself
        for a, b in zip(forked["configurations"], fresh["configurations"]):
            self.assertEqual((a["peak_allocated_bytes"], a["peak_reserved_bytes"]), (b["peak_allocated_bytes"], b["peak_reserved_bytes"]))

    def test_switches_variables_modules_and_conditions(self):
        program = [SETUP.python, "-m", "swept", "--batch-size", "{batch}"]
        environment = {"PYTHONPATH": f"{truth.PROGRAMS}:{truth.QUICK_START}"}
        answer = self.sweep("--axis", "batch=8,16", "--axis", "double=false,true", "--axis", "env:COLOUR=red,blue", "--where", "batch <= 8 or double == 'true'", program=program, environment=environment.items())
        self.assertEqual(len(answer["configurations"]), 6)
        runs = self.runs()
        self.assertEqual(collections.Counter((run["batch_size"], "--double" in run["argv"], run["colour"]) for run in runs),
                         collections.Counter([(8, False, "red"), (8, False, "blue"), (8, True, "red"), (8, True, "blue"), (16, True, "red"), (16, True, "blue")]))
        self.assertEqual({pathlib.Path(run["file"]).name for run in runs}, {"swept.py"})
        peaks = {tuple(row["values"].values()): row["peak_allocated_bytes"] for row in answer["configurations"]}
        self.assertEqual(peaks[(8, "true", "red")], peaks[(8, "true", "blue")])
        self.assertGreater(peaks[(8, "true", "red")], peaks[(8, "false", "red")])

    def test_programs_with_workers_and_programs_that_are_no_python_script(self):
        rows = self.sweep("--axis", "batch-size=8,32", program=[SETUP.python, PROGRAM, "workers", "--batch-size", "1"])["configurations"]
        self.assertEqual({row["state"] for row in rows}, {"fits"})
        rows = self.sweep("--axis", "batch-size=8,32", "--results-dir", "env", program=["env", "X=1", SETUP.python, PROGRAM, "--batch-size", "1"])["configurations"]
        self.assertEqual({row["state"] for row in rows}, {"fits"})
        self.assert_same_as_alone(rows[1], "--batch-size", 32)

    def test_files_and_traces(self):
        self.run_sweep("--axis", "batch-size=64,128", "--results-dir", "out", program=[SETUP.python, PROGRAM, "--batch-size", "1", "--token", "hf_secret"])
        for name in FILES:
            path = self.folder / "out" / name
            self.assertGreater(path.stat().st_size, 100, name)
            if name.endswith(".png"):
                self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n", name)
        rows = json.loads((self.folder / "out" / "memory_profile_results.json").read_text())["configurations"]
        for row in rows:
            report = json.loads(truth.run([SETUP.gpumem, "report", "--json", str(self.folder / "out" / row["trace"])], SETUP))
            self.assertEqual(report["devices"][0]["peak"]["allocated_bytes"], row["peak_allocated_bytes"])
            info = json.loads(truth.run([SETUP.gpumem, "info", "--json", str(self.folder / "out" / row["trace"])], SETUP))
            self.assertEqual((info["program"], info["process"]["command_line"]), ("swept", [SETUP.python, str(PROGRAM), "--batch-size", str(row["values"]["batch-size"]), "--token", "***"]))
        self.assertFalse((self.folder / "out" / "running").exists())
        for path in (self.folder / "out").rglob("*"):
            if path.is_file():
                self.assertNotIn(b"hf_secret", path.read_bytes(), path.name)


class Failures(Swept):
    MIXED = [truth.PROGRAMS / "swept.py", "mixed", "--batch-size", "1"]

    def test_what_fails_hangs_or_does_not_fit_is_a_row(self):
        options = ["--axis", "batch-size=1,2,3,4,5,6,30000000", "--timeout", "12", "--memory", "40GiB"]
        program = [SETUP.python, *self.MIXED]
        rows = {row["values"]["batch-size"]: row for row in self.sweep(*options, expected=1, program=program)["configurations"]}
        self.assertEqual({number: row["state"] for number, row in rows.items()},
                         {1: "failed", 2: "failed", 3: "timed_out", 4: "spins", 5: "no_cuda", 6: "fits", 30000000: "out_of_memory"})
        self.assertEqual(rows[1]["reason"], "ValueError: a batch of one is not a batch")
        self.assertEqual((rows[1]["exit_code"], rows[2]["exit_code"]), (1, 128 + signal.SIGSEGV))
        self.assertIn("signal 11", rows[2]["reason"])
        self.assertRegex(rows[3]["reason"], r"swept.py:\d+ in mixed")
        self.assertRegex(rows[4]["reason"], r"swept.py:\d+")
        self.assertGreater(rows[30000000]["peak_allocated_bytes"], 40 << 30)
        self.assertIn("40 GiB", rows[30000000]["reason"])
        before = len(self.runs())
        again = self.sweep(*options, expected=1, program=program)["configurations"]
        self.assertEqual(len(self.runs()), before, "nothing ran again")
        self.assertEqual([row["state"] for row in again], [row["state"] for row in rows.values()])
        self.sweep("--retry", *options[:1], "batch-size=1,6", *options[2:], expected=1, program=program)
        self.assertEqual([run["batch_size"] for run in self.runs()[before:]], [1])
        page = self.run_sweep(*options, expected=1, program=program)
        self.assertIn("a batch of one is not a batch", page)

    def test_imports_that_cannot_be_made_before_a_fork(self):
        packages = self.folder / "site-packages"
        packages.mkdir()
        shutil.copy(truth.PROGRAMS / "awkward_import.py", packages)
        program = self.folder / "program"
        program.mkdir()
        for name in ("swept.py", "swept_parts.py"):
            shutil.copy(truth.PROGRAMS / name, program)
        expected = self.plan("--batch-size", "64")["peak"]["allocated_bytes"]
        for what, reported in (("cuda", "uses CUDA"), ("thread", "threads"), ("process", "processes"), ("dies", "afresh"), ("capability", None)):
            with self.subTest(what):
                environment = {"PYTHONPATH": f"{packages}:{truth.QUICK_START}", "AWKWARD": what}
                answer = self.sweep("--axis", "batch-size=64,128", "--results-dir", what, program=[SETUP.python, program / "swept.py", "--batch-size", "1"], environment=environment.items())
                rows = answer["configurations"]
                self.assertEqual([row["state"] for row in rows], ["fits"] * 2)
                extra = 512 if what == "cuda" else 0
                self.assertEqual(rows[0]["peak_allocated_bytes"], expected + extra)
                notes = " ".join(answer["notes"])
                self.assertIn(reported or "", notes)
                self.assertEqual(reported is None, "awkward" not in notes and "afresh" not in notes, notes)

    def test_wrong_use_is_refused_with_the_next_step(self):
        (self.folder / "bad.yaml").write_text("command: python x.py\naxes:\n  batch: {}\n")
        (self.folder / "worse.yaml").write_text("command: [a\n")
        (self.folder / "unknown.yaml").write_text("command: a\nbatches: 3\n")
        for arguments, reported in ((["bad.yaml"], "bad.yaml:3"), (["worse.yaml"], "not YAML"), (["unknown.yaml"], "not a key"), (["none.yaml"], "cannot read none.yaml"),
                                (["--axis", "x=1", "--", "python", "a.py"], "no place for x"), (["--", "python", "a.py"], "nothing to go through"), ([], "no command"),
                                (["--axis", "x=3..1", "--", "python", "a.py"], "upwards"), (["--axis", "x=1", "--where", "y <", "--", "python", "a.py", "{x}"], "missing"),
                                (["--axis", "x=1", "--where", "y < 2", "--", "python", "a.py", "{x}"], "not an axis"), (["--axis", "x=1", "--where", "x > 2", "--", "python", "a.py", "{x}"], "no configuration")):
            with self.subTest(arguments):
                done = subprocess.run([SETUP.gpumem, "sweep", *arguments], cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(reported, done.stderr)
        (self.folder / "file").write_text("")
        self.run_sweep("--axis", "batch-size=1", "--results-dir", "file", expected=3)


class Going(Swept):
    AXIS = ["--axis", "batch-size=1,2,3,4,5", "--json", "--no-files"]

    def start(self):
        """Two of the five configurations wait for a file of ours, so none of these is done before the test wants it."""
        program = [SETUP.python, PROGRAM, "held", "--batch-size", "1"]
        environment = self.environment(HELD=str(self.folder / "go on"))
        return subprocess.Popen(self.command(*self.AXIS, program=program), cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kept(self):
        return {path.name for path in (self.folder / "sweep_results" / "rows").glob("*.json")}

    def left(self):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder / "runs").encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def end_when_rows_are_there(self, number):
        process = self.start()
        while len(self.kept()) < 2:
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.send_signal(number)
        process.communicate()
        while self.left():  # the test's time limit is the only one
            time.sleep(0.05)
        return process.returncode

    def test_a_killed_sweep_goes_on_where_it_was(self):
        self.assertEqual(self.end_when_rows_are_there(signal.SIGKILL), -signal.SIGKILL)
        kept = self.kept()
        before = [run["batch_size"] for run in self.runs()]
        self.assertLess(len(kept), 5)
        (self.folder / "go on").touch()
        process = self.start()
        out, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        rows = json.loads(out)["configurations"]
        self.assertEqual([(row["values"]["batch-size"], row["state"]) for row in rows], [(number, "fits") for number in range(1, 6)])
        again = [run["batch_size"] for run in self.runs()][len(before):]
        self.assertEqual(len(again), 5 - len(kept), "what was done did not run again, the rest did once")
        self.assertEqual(set(before) | set(again), set(range(1, 6)))
        self.assertFalse((self.folder / "sweep_results" / "running").exists())

    def test_an_interrupt_ends_it_and_says_how_to_go_on(self):
        self.assertEqual(self.end_when_rows_are_there(signal.SIGINT), -signal.SIGINT)
        self.assertFalse((self.folder / "sweep_results" / "running").exists())

    def test_two_sweeps_of_one_directory(self):
        first = self.start()
        while not (self.folder / "sweep_results" / "running").exists():
            time.sleep(0.02)
        self.run_sweep("--axis", "batch-size=1", expected=3)
        (self.folder / "go on").touch()
        first.communicate()
        self.assertEqual(first.returncode, 0)

    def test_a_changed_script_is_run_again(self):
        program = self.folder / "program"
        program.mkdir()
        for name in ("swept.py", "swept_parts.py"):
            shutil.copy(truth.PROGRAMS / name, program)
        command = [SETUP.python, program / "swept.py", "--batch-size", "1"]
        self.sweep("--axis", "batch-size=8", program=command)
        (program / "swept.py").write_text((program / "swept.py").read_text().replace("range(4)", "range(8)"))
        self.sweep("--axis", "batch-size=8", program=command)
        self.assertEqual(len(self.runs()), 2)


class Places(Swept):
    def test_on_a_gpu_of_its_own(self):
        """A machine with a GPU, as far as the sweep can see."""
        command = [truth.ROOT / "simcuda" / "run", *self.command("--on", "gpu", "--json", "--no-files", "--axis", "batch-size=64,40000000")]
        environment = {**self.environment(), "SIMCUDA_MEM_MB": "45500", "SIMCUDA_CC": "89"}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        self.assertFalse(answer["simulated"])
        fits, large = answer["configurations"]
        self.assertEqual((fits["state"], large["state"]), ("fits", "out_of_memory"))
        self.assertIn("OutOfMemoryError", large["reason"])
        self.assertEqual(fits["capacity_bytes"], 45500 * MIB)
        self.assert_same_as_alone(fits, "--batch-size", 64, options=["--device", "l40s"])
        self.assertEqual(len({run["parent"] for run in self.runs()}), 1)

    def test_the_options_of_the_scripts_that_scan_opacus_runs(self):
        program = [SETUP.python, PROGRAM, "--batch-size", "{batch_size}", "--width", "{seq_length}"]
        answer = self.sweep("--opacus-scan", "--seq_lengths", "64", "128", "--batch_sizes", "8", "16", "--results_dir", "scan", "--num_steps", "3", "--token", "x", program=program)
        self.assertEqual([tuple(row["values"].values()) for row in answer["configurations"]], [(64, 8), (64, 16), (128, 8), (128, 16)])
        self.assertEqual({row["optimizer_steps"] for row in answer["configurations"]}, {3})
        self.assertNotIn("hf_", json.dumps(answer))
        listed = subprocess.run([SETUP.gpumem, "sweep", "--s3", "--list", "--batch_sizes", "2", "4", "--max_physical_batch_sizes", "1", "4", "--results_dir", "example"],
                                cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=True)
        self.assertEqual(len(listed.stdout.splitlines()), 3, "a physical batch is no larger than a batch")
        self.assertIn("PrivacyEngine", (self.folder / "example" / "train_dp_lora.py").read_text())


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    truth.run_tests(globals(), RARER)

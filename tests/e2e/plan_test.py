# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim plan` says of unmodified programs what PyTorch's own counters say, ends them after their steps, and says so where it cannot know.

    python tests/e2e/plan_test.py --build build/release [--full]
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "planned.py"
MIB = 1 << 20
# What `computed` finds, as on any device.
COMPUTED = {
    "longest": 17, "total": 25, "mask": [2, 4], "labels": 25, "positions": [3, 7, 3, 3], "packed": [25, 8], "inverse": [1.0, 0.1, 0.01, 0.001], "unique": [1, 2, 5],
    "counts": [1, 2, 3], "order": [1, 2, 0], "starts": [0, 3, 20, 25], "repeated": [25], "where": [1], "any": False, "all": True, "none": False, "causal": 15, "top": [17, 5],
    "halves": [1, 8, 2], "bins": 18, "isin": [False, False, True], "hot": 25, "rest": [0, 2], "power": 5,
}
RARER = ("test_a_cache_that_can_be_given_back", "test_the_largest_where_the_data_decide", "test_kernels_that_lag_behind",
         "test_computing_changes_no_request_for_memory", "test_a_share_for_one_line", "test_which_experts_a_router_chooses",
         "test_what_a_program_settles_on", "test_managed_memory_counts", "test_a_program_that_never_ends", "test_a_program_without_cuda",
         "test_a_device_that_pytorch_has_no_code_for", "test_a_program_that_is_over_at_once", "test_the_largest_is_run_once",
         "test_ranks_have_peaks_of_their_own", "test_what_each_forked_run_reads")  # ranks_test has the last one every day


class Planned(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-plan-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()

    def environment(self):
        return truth.environment_of_plans(SETUP, TMPDIR=str(self.folder / "tmp"), COUNTERS=str(self.folder / "counters"))

    def command(self, case, *options, batch=4096, launcher=()):
        return [SETUP.gpumem, "plan", *options, "--", *(launcher or [SETUP.python]), str(PROGRAM), case, "--batch-size", str(batch)]

    def run_plan(self, case, *options, expected=0, errors=False, **more):
        done = subprocess.run(self.command(case, *options, **more), cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, expected, done.stdout[:2500] + done.stderr)
        self.assertEqual(list((self.folder / "tmp").glob("gpumemshim*")), [], "nothing is left in the folder for temporary files")
        return done.stderr if errors else done.stdout

    def plan(self, case, *options, **more):
        return json.loads(self.run_plan(case, "--json", "--no-what-if", *options, **more))

    def counters(self):
        return [json.loads(line) for line in (self.folder / "counters").read_text().splitlines()]


class Peaks(Planned):
    def test_the_peak_is_what_pytorch_counts(self):
        plan = self.plan("plain", "--device", "l40s")
        counters = self.counters()
        self.assertEqual((plan["verdict"], plan["end"]), ("fits", "ended"))
        process = plan["processes"][0]
        # The optimizer's state comes in the first step, so the second is higher; whether more is reserved in the third, the order of addresses decides.
        last = process["last_growth"]
        self.assertIn(last, (2, 3))
        self.assertEqual(process["steps"], 50)
        reserved = [step["reserved"] for step in counters]
        self.assertLess(reserved[last - 2], reserved[last - 1])
        self.assertEqual(plan["peak"]["allocated_bytes"], counters[2]["allocated"])
        self.assertEqual(plan["peak"]["reserved_bytes"], reserved[last])
        self.assertEqual((counters[0]["name"], counters[0]["memory"]), ("NVIDIA L40S", plan["device"]["memory_bytes"]))
        state = next(row for row in plan["category_details"] if row["category"] == "optimizer_state")
        self.assertGreaterEqual(state["bytes"], 2 * 4 * 4 * 1024 * 1025)
        self.assertEqual(self.plan("plain", "--device", "l40s")["peak"], plan["peak"])

    def test_the_trace_is_one_like_any_other_and_says_that_it_is_simulated(self):
        plan = self.plan("plain", "-o", "mine.gmtrace")
        self.assertEqual(plan["processes"][0]["trace"], "mine.gmtrace")
        report = json.loads(truth.run([SETUP.gpumem, "report", "--json", str(self.folder / "mine.gmtrace")], SETUP))
        info = json.loads(truth.run([SETUP.gpumem, "info", "--json", str(self.folder / "mine.gmtrace")], SETUP))
        self.assertEqual(info["process"]["versions"]["simulated"], "simcuda, planned")
        self.assertTrue(report["complete"])
        self.assertEqual(report["devices"][0]["peak"]["allocated_bytes"], plan["peak"]["allocated_bytes"])
        self.assertIn("simulated GPU", truth.run([SETUP.gpumem, "report", str(self.folder / "mine.gmtrace")], SETUP))

    def test_steps_are_the_optimizers(self):
        self.assertEqual(self.plan("accumulated")["processes"][0]["steps"], 50)
        self.assertEqual(self.plan("two_optimizers")["processes"][0]["steps"], 50)
        plan = self.plan("plain", "--steps", "7")
        self.assertEqual((plan["end"], plan["processes"][0]["steps"]), ("steps", 7))

    def test_a_program_that_comes_to_its_end_leaves_nothing_open(self):
        plan = self.plan("late_growth")
        self.assertEqual((plan["verdict"], plan["end"]), ("fits", "ended"))
        self.assertEqual(plan["peak"]["allocated_bytes"], self.counters()[-1]["allocated"])
        self.assertEqual({doubt["kind"] for doubt in plan["doubts"]}, {"context"})

    def test_what_comes_after_an_early_end_is_in_the_verdict(self):
        plan = self.plan("long", expected=6)
        self.assertEqual((plan["verdict"], plan["fits"], plan["end"]), ("fits_unless", False, "stable"))
        self.assertEqual((plan["doubts"][0]["kind"], plan["doubts"][0]["more_bytes"], plan["processes"][0]["steps"]), ("later_steps", None, 60))
        self.assertEqual(self.plan("long", "--steps", "5")["verdict"], "fits")  # who says how many has no later ones

    def test_ranks_have_peaks_of_their_own(self):
        torchrun = str(pathlib.Path(SETUP.python).parent / "torchrun")
        plan = self.plan("ranks", "--device-count", "2", launcher=[torchrun, "--standalone", "--nproc-per-node", "2"])
        peaks = {process["rank"]: process["peak"]["allocated_bytes"] for process in plan["processes"]}
        self.assertEqual(set(peaks), {0, 1})
        self.assertGreater(peaks[1], peaks[0])
        self.assertEqual(plan["processes"][0]["rank"], 1)


class Verdicts(Planned):
    def test_too_small_a_device(self):
        plan = self.plan("plain", "--memory", "1GiB", "--capability", "8.6", "--steps", "3", batch=65536, expected=1)
        self.assertEqual((plan["verdict"], plan["fits"]), ("does_not_fit", False))

    def test_a_cache_that_can_be_given_back(self):
        plan = self.plan("cached", "--memory", "2GiB")
        self.assertEqual((plan["verdict"], plan["tight"]["runs_through"], plan["tight"]["refused_requests"]), ("fits", True, 0))
        self.assertGreater(plan["range"]["high_bytes"], 2048 * MIB)
        # It wants more than there is; what it holds at a time fits even with the largest context that is thinkable, or with none that is larger than its guess.
        self.assertEqual(self.plan("cached", "--memory", "1.5GiB", expected=5)["verdict"], "too_close")
        self.assertEqual(self.plan("cached", "--memory", "8GiB")["tight"], None)

    def test_data_that_decide(self):
        """On a device whose size is between the ends, with limits between them too."""
        limits = self.folder / "budget.yaml"
        limits.write_text("max_peak: 60GiB\nmax_reserved: 1GiB\nmax_leak: 1MiB/step\n")
        plan = self.plan("masked", "--memory", "2GiB", "--check", str(limits), batch=65536, expected=5)
        least, most = plan["confidence"]["peak_where_data_find_nothing"]["process_bytes"], plan["peak"]["process_bytes"]
        self.assertGreater(most, least + 256 * MIB)
        self.assertEqual(plan["verdict"], "too_close")
        reads = [read for read in plan["confidence"]["host_reads"] if read["kind"] == "shape"]
        self.assertEqual([read["operation"] for read in reads], ["aten::nonzero"])
        self.assertIn("planned.py:", reads[0]["site"])
        half = self.plan("masked", "--data-dependent", "expect=0.5", "--steps", "3", batch=65536)
        self.assertTrue(least < half["peak"]["process_bytes"] < most)
        self.assertEqual({check["name"]: check["result"] for check in plan["checks"]}, {"max_peak": "passed", "max_reserved": "too_close", "max_leak": "unknown"})
        (self.folder / "plan.json").write_text(json.dumps(plan))
        checked = subprocess.run([SETUP.gpumem, "check", "plan.json", "--limits", str(limits), "--json"], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(checked.returncode, 5, checked.stderr)
        self.assertEqual([check["why"] for check in json.loads(checked.stdout)["checks"]], [check["why"] for check in plan["checks"]])

    def test_limits_of_a_plan_without_an_answer(self):
        limits = self.folder / "budget.yaml"
        limits.write_text("max_peak: 1MiB\n")
        annotations = self.run_plan("fails", "--check", str(limits), "--format", "github", expected=3)
        self.assertEqual(len(annotations.splitlines()), 1, annotations)
        self.run_plan("plain", "--check", "absent.yaml", expected=2)
        self.run_plan("plain", "--check", str(limits), "--vary", "batch=1..4", expected=2)
        self.run_plan("plain", "--format", "junit", expected=2)

    def test_the_largest_where_the_data_decide(self):
        vary = self.plan("masked", "--memory", "3GiB", "--vary", "batch-size=8192,16384,65536", batch=1)["vary"]
        self.assertGreater(vary["largest_where_data_find_nothing"]["batch-size"], vary["largest"]["batch-size"])
        self.assertEqual({run["data_find_nothing"] for run in vary["runs"]}, {False, True})

    def test_pins(self):
        as_it_is = self.plan("branch")
        self.assertIn("value", [read["kind"] for read in as_it_is["confidence"]["host_reads"]])
        self.assertGreater(as_it_is["confidence"]["peak_with_other_values"]["allocated_bytes"], as_it_is["peak"]["allocated_bytes"])
        pinned = self.plan("branch", "--pin", "batch.max().item()=5")
        self.assertEqual(pinned["range"]["high_bytes"], as_it_is["range"]["high_bytes"])  # what is left is the doubt of the context
        self.assertLess(pinned["peak"]["process_bytes"], pinned["range"]["high_bytes"])
        self.assertIn("nothing was read where 'planned.py:1' says", self.run_plan("branch", "--pin", "planned.py:1=5", expected=2, errors=True))
        self.assertGreater(pinned["peak"]["allocated_bytes"], as_it_is["peak"]["allocated_bytes"])
        self.assertEqual(pinned["confidence"]["pinned"], {"batch.max().item()": pinned["processes"][0]["steps"]})

    def test_kernels_that_lag_behind(self):
        plan = self.plan("streams")
        self.assertGreater(plan["confidence"]["peak_where_kernels_lag_behind"]["reserved_bytes"], plan["peak"]["reserved_bytes"])
        self.assertIsNone(self.plan("plain")["confidence"]["peak_where_kernels_lag_behind"])

    def test_what_ifs(self):
        plan = json.loads(self.run_plan("plain", "--json", "--steps", "3", batch=32768))
        halved = next(row for row in plan["what_if"] if row["change"].startswith("--batch-size 16384"))
        self.assertLess(halved["peak"]["allocated_bytes"], plan["peak"]["allocated_bytes"])
        counted = {step["allocated"] for step in self.counters()}  # of all runs
        self.assertEqual({halved["peak"]["allocated_bytes"], plan["peak"]["allocated_bytes"]} - counted, set())
        self.assertLessEqual(len(plan["what_if"]), 3)
        self.assertGreater(plan["time"]["further_runs"], 1)
        self.assertIsNotNone(plan["time"]["imports_s"], "the first run was forked as well")
        self.assertNotIn("fork_server", json.dumps([frame for stack in plan["stacks"] for frame in stack["frames"] if frame["telling"]]))
        self.assertTrue(list(self.folder.glob("plan.planned.*.gmtrace")))

    def test_the_largest_that_fits(self):
        plan = self.plan("plain", "--memory", "2GiB", "--steps", "3", "--vary", "batch_size=8192..131072", batch=1)
        largest = plan["vary"]["largest"]["batch_size"]
        self.assertIn(plan["peak"]["allocated_bytes"], {step["allocated"] for step in self.counters()})
        self.assertIn(str(largest), plan["command_line"])
        runs = {run["values"]["batch_size"]: run for run in plan["vary"]["runs"]}
        self.assertTrue(runs[largest]["fits"])
        self.assertFalse(runs[min(size for size in runs if size > largest)]["fits"])
        self.assertEqual(min(size for size in runs if size > largest), largest + 1)


    def test_the_largest_is_run_once(self):
        plan = self.plan("plain", "--memory", "2GiB", "--vary", "batch_size=8192..131072", batch=1)
        runs = plan["vary"]["runs"]
        self.assertEqual(plan["time"]["further_runs"], len(runs) - 1)
        chosen = next(run for run in runs if run["values"] == plan["vary"]["largest"])
        self.assertEqual(chosen["peak"], plan["peak"])
        alone = self.plan("plain", "--memory", "2GiB", batch=chosen["values"]["batch_size"])
        self.assertEqual({key: alone["peak"][key] for key in ("allocated_bytes", "reserved_bytes")}, {key: plan["peak"][key] for key in ("allocated_bytes", "reserved_bytes")})
        self.assertEqual((alone["verdict"], alone["end"]), (plan["verdict"], plan["end"]))


class Values(Planned):
    def test_what_decides_is_computed(self):
        self.plan("computed")
        self.assertEqual(json.loads((self.folder / "computed.json").read_text()), COMPUTED)

    def test_computing_changes_no_request_for_memory(self):
        for case in ("computed", "masked", "streams"):
            with self.subTest(case=case):
                requests = []
                for values in ("computed", "none"):
                    self.run_plan(case, "--no-what-if", "--json", "--values", values, "--data-dependent", "upper", "--steps", "4", "-o", f"{values}.gmtrace")
                    dump = truth.run([SETUP.gpumem, "export", "events", "--json", "--limit", "0", str(self.folder / f"{values}.gmtrace")], SETUP)
                    events = [json.loads(line) for line in dump.splitlines()]
                    requests.append([(event["kind"], event["layer"], event["address"] if event["memory"] == "device" else "", event["size_bytes"]) for event in events if "alloc" in event["kind"] or event["kind"] == "free"])
                self.assertGreater(len(requests[0]), 10)
                if case != "computed":  # there the sizes themselves depend on what is computed
                    self.assertEqual(*requests)

    def test_a_share_for_one_line(self):
        plan = self.plan("masked", "--data-dependent", f"planned.py:{self.line('every[every.sum')}=0.25", batch=65536)
        self.assertIsNone(plan["confidence"]["peak_where_data_find_nothing"])

    def test_which_experts_a_router_chooses(self):
        peaks = {}
        for routing in ("balanced", "worst", "7"):
            plan = self.plan("experts", "--routing", routing, batch=8192)
            self.assertIsNone(plan["confidence"]["peak_where_data_find_nothing"])
            self.assertEqual(plan["confidence"]["pinned"], {"--routing": 1})
            peaks[routing] = plan["peak"]["allocated_bytes"]
        parameters = 4 * (8 * (1024 + 1) * 4096 + 8 * (1024 + 1))
        kept = 2 * 8192 * 4096 * 4  # what all experts together make: each token twice
        for peak in peaks.values():
            self.assertGreater(peak, parameters + kept)
        # The rows that an expert gets are there beside that: all of them, or an eighth of twice as many.
        self.assertGreater(peaks["worst"], peaks["balanced"])
        self.assertNotEqual(peaks["7"], peaks["balanced"])
        self.assertIn("--routing changed nothing", self.run_plan("plain", "--routing", "balanced", "--steps", "1", expected=2, errors=True))

    def line(self, text):
        return next(number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line)


class SeveralProcesses(Planned):
    def test_two_of_50_gib_do_not_fit_on_an_h100(self):
        plan = self.plan("two_processes", expected=1)
        self.assertEqual(plan["verdict"], "does_not_fit")
        self.assertEqual(len(plan["shared_devices"][0]["pids"]), 2)
        self.assertGreater(plan["range"]["low_bytes"], 100 << 30)

    def test_what_a_program_settles_on(self):
        plan = self.plan("settles")
        self.assertEqual((plan["verdict"], plan["tight"]["refused_requests"]), ("fits", 2))
        self.assertEqual(plan["peak"]["allocated_bytes"] >> 30, 64)

    def test_managed_memory_counts(self):
        plan = self.plan("managed")
        self.assertEqual(plan["processes"][0]["managed_bytes"], 3 << 30)
        self.assertGreater(plan["range"]["high_bytes"], 3 << 30)
        self.assertLess(plan["range"]["low_bytes"], 1 << 30)


class Input(Planned):
    def test_a_program_from_standard_input(self):
        program = "import sys, torch; kept = torch.empty(3 << 30, dtype=torch.uint8, device='cuda')\n"
        command = [SETUP.gpumem, "plan", "--json", "--", SETUP.python, "-"]
        done = subprocess.run(command, input=program, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[:2500] + done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["peak"]["allocated_bytes"], 3 << 30)

    def test_what_each_forked_run_reads(self):
        (self.folder / "reads.py").write_text("import sys, torch; kept = torch.empty(int(sys.stdin.read()) << 30, dtype=torch.uint8, device='cuda')\n")
        (self.folder / "size").write_text("3")
        with open(self.folder / "size", encoding="utf-8") as size:
            done = subprocess.run([SETUP.gpumem, "plan", "--json", "--", SETUP.python, "reads.py"], stdin=size, cwd=self.folder, env=self.environment(), capture_output=True, text=True,
                                  timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[:2500] + done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["peak"]["allocated_bytes"], 3 << 30)
        self.assertIsNotNone(plan["time"]["imports_s"])


class WithoutAnAnswer(Planned):
    def test_a_loop_that_waits_for_a_value(self):
        plan = self.plan("waits", expected=3)
        self.assertEqual((plan["verdict"], plan["end"]), ("unknown", "spins"))
        self.assertIn("planned.py:", plan["stuck_at"])
        self.assertIn("waits", plan["stuck_at"])

    def test_a_program_that_never_ends(self):
        plan = self.plan("sleeps", "--timeout", "8", expected=3)
        self.assertEqual((plan["verdict"], plan["end"]), ("unknown", "timed_out"))
        self.assertIn("in sleeps", plan["stuck_at"])

    def test_a_program_that_fails(self):
        text = self.run_plan("fails", "--no-what-if", expected=3)
        self.assertIn("not known", text)
        self.assertIn("ValueError: no data at /data/imagenet", text)

    def test_a_program_without_cuda(self):
        self.assertIn("No CUDA memory was used", self.run_plan("no_cuda", expected=3))

    def test_a_device_that_pytorch_has_no_code_for(self):
        self.assertIn("has no code for capability 7.0", self.run_plan("plain", "--device", "v100", expected=3))

    def test_a_program_that_is_over_at_once(self):
        self.assertIn("has no code for capability 6.1", self.run_plan("fails", "--memory", "8GiB", "--capability", "6.1", expected=3))

    def test_wrong_use(self):
        for options in (["--device", "h1000"], ["--memory", "lots"], ["--capability", "9"], ["--steps", "few"], ["--vary", "batch"], ["--vary", "nothing=1..4"],
                        ["--pin", "x"], ["--data-dependent", "some"], ["--device-count", "0"], ["--timeout", "0"]):
            with self.subTest(options=options):
                self.run_plan("plain", *options, expected=2)

    def test_an_interrupt_ends_the_program_too(self):
        process = subprocess.Popen(self.command("sleeps"), cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        marker = str(self.folder / "counters").encode()

        def children():
            found = []
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    if int(entry.name) != process.pid and marker in (entry / "environ").read_bytes():
                        found.append(entry.name)
                except OSError:
                    continue
            return found

        while not children():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), -signal.SIGINT)
        while children():  # the test's time limit is the only one
            time.sleep(0.05)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    truth.run_tests(globals(), RARER)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs with CUPTI watching beside the recorder: they print, end and profile as without it, and the trace says what CUPTI did.

    python tests/hosts/cupti_victims_test.py --build build/release --hosts build/release/tests/hosts [--full]

--full: torch.profiler, and all that processes_test and ending_table_test do, with CUPTI on.
"""

import json
import signal
import subprocess
import sys
import time
import unittest

import ending_table_test
import hosts_test
import processes_test
from cross_check_sweep_test import missing_modules
from hosts_test import truth

MIB = 1 << 20
LOADS = "runtime libcudart.so.13 cupti libcupti.so.13"


class CuptiTest(hosts_test.HostTest):
    def environment(self, preload=True, **more):
        return super().environment(preload, **{"GPUMEMSHIM_CUPTI": "wait", **more})

    def compare(self, words, code=0):
        """Bare and recorded it prints and ends alike. Returns what it prints, and the report's view of CUPTI."""
        bare = self.run_host("cupti_host", *words.split(), preload=False)
        done = self.run_host("cupti_host", *words.split(), GPUMEMSHIM_QUIET="1")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (bare.returncode, bare.stdout, bare.stderr))
        self.assertEqual(done.returncode, code)
        return done.stdout.split("\n"), self.report()

    def calls(self, answer):
        kinds = answer["events"]["by_kind"]
        return kinds.get("alloc", 0), kinds.get("free", 0)


class OwnSubscriber(CuptiTest):
    def test_that_was_there_before(self):
        """It gets all of its records; nothing is asked of CUPTI."""
        lines, answer = self.compare(f"{LOADS} subscribe watch alloc 20 free sleep 700 count alloc 5 free count unsubscribe")
        self.assertEqual([line for line in lines if line.startswith("count")], ["count 40", "count 50"])
        self.assertEqual((answer["cupti"]["state"], answer["cupti"]["records"]), ("other_subscriber", 0))
        self.assertEqual(self.calls(answer), (25, 25))

    def test_that_comes_later(self):
        """It finds CUPTI free, and gets the records of what follows."""
        words = f"{LOADS} alloc 20 free sleep 700 subscribe watch alloc 30 free count sleep 700 alloc 3 free count unsubscribe"
        lines, answer = self.compare(words)
        self.assertIn("subscribe 0", lines)
        self.assertEqual([line for line in lines if line.startswith("count")], ["count 60", "count 66"])
        self.assertEqual(answer["cupti"]["state"], "other_subscriber")
        self.assertGreaterEqual(answer["cupti"]["records"], 40)
        self.assertEqual(self.calls(answer), (53, 53))

    def test_that_is_gone_before_us(self):
        _, answer = self.compare(f"{LOADS} subscribe unsubscribe alloc 20 free")
        self.assertEqual((answer["cupti"]["state"], answer["cupti"]["records"]), ("ended", 40))


class Libraries(CuptiTest):
    def test_the_program_closes_libcupti(self):
        _, answer = self.compare(f"{LOADS} alloc 5 close-cupti sleep 700 free alloc 5 free")
        self.assertEqual((answer["cupti"]["state"], self.calls(answer)), ("ended", (10, 10)))

    def test_the_program_closes_libcudart(self):
        for loads in (LOADS, "runtime libcudart.so.13"):
            with self.subTest(loads):
                self.setUp()
                _, answer = self.compare(f"{loads} alloc 5 free close-runtime sleep 700")
                self.assertEqual((answer["cupti"]["state"], answer["cupti"]["records"]), ("ended", 10))

    def test_it_closes_and_loads_them_again(self):
        _, answer = self.compare(f"{LOADS} alloc 5 free close-runtime close-cupti sleep 700 {LOADS} alloc 5 free")
        self.assertEqual(self.calls(answer), (10, 10))
        self.assertEqual(answer["cupti"]["records"], 20)


class Ends(CuptiTest):
    def test_by_an_exception(self):
        _, answer = self.compare("runtime libcudart.so.13 alloc 5 free sleep 700 throw", code=-signal.SIGABRT)
        self.assertFalse(answer["complete"])
        self.assertEqual((answer["cupti"]["state"], answer["cupti"]["records"]), ("recording", 10))

    def test_before_a_libcupti_that_we_loaded_ends_itself(self):
        """What is called behind CUPTI's own end ends the program, on a GPU by SIGSEGV."""
        _, answer = self.compare("runtime libcudart.so.13 alloc 3 free")
        self.assertEqual((answer["cupti"]["state"], answer["cupti"]["records"]), ("ended", 6))

    def test_at_once(self):
        _, answer = self.compare("runtime libcudart.so.13 alloc 1 _exit 7", code=7)
        self.assertTrue(answer["complete"])
        self.assertEqual(self.calls(answer), (1, 0))
        self.assertIn(answer["cupti"]["state"], ("recording", "ended"))

    def test_before_anything(self):
        for ending in ("only-init", "no-cuda"):
            bare, done = (self.run_host("host_endings", ending, preload=preload) for preload in (False, True))
            self.assertEqual((done.returncode, done.stdout), (bare.returncode, bare.stdout))

    def records(self):
        return (self.report()["cupti"] or {"records": 0})["records"] if self.traces() else 0

    def test_kill_9(self):
        """What CUPTI delivered until then is in the trace, and all of the recorder's own events."""
        command = [str(hosts_test.HOSTS / "host_endings"), "wait"]
        host = subprocess.Popen(command, cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(host.stdout.close)
        self.addCleanup(host.kill)
        self.assertEqual(host.stdout.readline(), "ready\n")
        deadline = time.monotonic() + 30  # it delivers twice a second
        while time.monotonic() < deadline and self.records() < hosts_test.BLOCKS - 1:
            time.sleep(0.1)
        host.kill()
        host.wait()
        answer = self.report()
        self.assertEqual((answer["complete"], answer["events"]["runtime"], answer["cupti"]["state"]), (False, hosts_test.BLOCKS, "recording"))
        self.assertGreaterEqual(answer["cupti"]["records"], hosts_test.BLOCKS - 1)


class Processes(CuptiTest):
    def test_fork_and_exec(self):
        """A child has no CUPTI of ours unless it uses CUDA itself; an exec begins anew."""
        words = "fork ( alloc:3 free ) alloc:3 sleep:600 fork ( exit:4 ) vfork exec ( alloc:5 )"
        bare, done = (self.run_host("processes_host", *words.split(), preload=preload, GPUMEMSHIM_QUIET="1") for preload in (False, True))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (bare.returncode, bare.stdout, bare.stderr))
        states = sorted((truth.report(self.setup, trace)["cupti"]["state"], truth.report(self.setup, trace)["cupti"]["records"]) for trace in self.traces())
        self.assertEqual(states, [("ended", 5), ("ended", 6), ("recording", 3)])


class OnlyCupti(CuptiTest):
    """Memory that no hook sees."""

    def test_a_call_past_the_recorder(self):
        done = self.run_host("unseen_host", "reads", "-")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        answer = self.report()
        self.assertEqual((answer["cupti"]["unseen_allocations"], answer["cupti"]["unseen_peak_bytes"]), (1, 3 * MIB))
        breakdown = answer["devices"][0]["breakdown"]["at_end"]
        self.assertEqual((breakdown["static_bytes"], breakdown["static_in_measured_bytes"]), (0, 0))
        text = truth.run([self.setup.gpumem, "report", str(self.the_trace())], self.setup)
        self.assertIn("CUPTI alone saw 1 allocation, at most 3 MiB at once", " ".join(text.split()))

    def test_a_trace_of_its_view_alone_says_so_first(self):
        """Nothing that the program calls is hooked; the driver loads the recorder."""
        library = str(hosts_test.BUILD / "lib" / "libgpumemshim.so")
        places = {"CUDA_INJECTION64_PATH": library, "GPUMEMSHIM_RING_DIRECTORY": self.ring_folder}
        done = self.run_host("unseen_host", "deepbind", str(hosts_test.HOSTS / "libunseen_plugin.so"), preload=False, **places)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        answer = self.report()
        self.assertEqual((answer["events"]["driver"], answer["cupti"]["unseen_allocations"]), (0, 3))
        self.assertIn("the recorder saw no allocation; CUPTI alone saw 3 allocations", answer["verdict"]["problem"])
        text = truth.run([self.setup.gpumem, "report", str(self.the_trace())], self.setup)
        self.assertIn("ONLY CUPTI", text)
        self.assertNotIn("No GPU memory was allocated", text)

    def test_the_packet_by_name(self):
        self.run_host("host_endings", "return")
        text = truth.run([self.setup.gpumem, "export", "packets", str(self.the_trace())], self.setup)
        self.assertRegex(text, r"# packet \d+ at byte \d+: cupti")
        self.assertIn("state: CUPTI_ENDED", text)
        self.assertNotIn("unknown", text)
        info = truth.run([self.setup.gpumem, "info", str(self.the_trace())], self.setup)
        self.assertIn("CUPTI recorded to the end", " ".join(info.split()))

    def test_losses(self):
        self.run_host("host_endings", "return", SIMCUDA_CUPTI="drop=10")
        losses = self.report()["losses"]
        self.assertEqual((losses["cupti_dropped_records"], losses["total"]), (10, 0))
        text = truth.run([self.setup.gpumem, "report", "--full", str(self.the_trace())], self.setup)
        self.assertIn("10 records of CUPTI that CUPTI dropped", text)

    def test_doctor_says_whether_it_will_be_asked(self):
        for more, words in (({"GPUMEMSHIM_CUPTI": "0"}, "not asked"), ({}, "will be asked: ")):
            done = subprocess.run([self.setup.gpumem, "doctor", "--json"], env=self.environment(False, **more), capture_output=True, text=True)
            (finding,) = [check for check in json.loads(done.stdout)["findings"] if check["check"] == "cupti"]
            self.assertIn(words, finding["found"])


class TorchProfiler(CuptiTest):
    """Real PyTorch, whose profiler uses CUPTI."""

    def run_torch(self, order, python, **more):
        command = [str(truth.ROOT / "simcuda" / "run"), python, str(truth.PROGRAMS / "profiled.py"), order]
        environment = self.environment(**{"SIMCUDA_LIB": str(hosts_test.BUILD / "lib" / "simcuda"), **more})
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=200)

    def test_at_the_same_time(self):
        python = str(truth.ROOT / ".venv" / "bin" / "python")
        if missing_modules(python, ("torch",)):
            print(f"  skipped: no PyTorch in {python}. scripts/bootstrap installs it")
            return
        for order in ("first", "later"):
            with self.subTest(order):
                self.setUp()
                bare = self.run_torch(order, python, LD_PRELOAD="")
                done = self.run_torch(order, python, GPUMEMSHIM_QUIET="1")
                self.assertEqual(bare.returncode, 0, bare.stderr)
                self.assertEqual(json.loads(bare.stdout)["addmm"], 3)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, bare.stdout, bare.stderr))
                answer = self.report()
                self.assertEqual(answer["losses"]["total"], 0)
                self.assertGreater(answer["events"]["torch"], 20)
                print(f"  {order}: {json.dumps(answer['cupti'])}")
                self.assertIn(answer["cupti"]["state"], ("other_subscriber", "ended"))


class WithCupti:
    def environment(self, preload=True, **more):
        return super().environment(preload, **{"GPUMEMSHIM_CUPTI": "wait", **more})


if "--full" in sys.argv:
    sys.argv.remove("--full")
    for name in ("CuptiTest", "OwnSubscriber", "Libraries", "Ends", "Processes", "OnlyCupti"):
        del globals()[name]
    for module in (processes_test, ending_table_test):
        for name, kind in list(vars(module).items()):
            if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind.__module__ == module.__name__:
                globals()[name] = type(name, (WithCupti, kind), {"__module__": __name__})
else:
    del TorchProfiler


if __name__ == "__main__":
    hosts_test.main()

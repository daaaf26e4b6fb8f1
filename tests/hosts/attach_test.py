# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim attach` comes to programs that run, at any moment, again and again, and may be killed at any moment: the program notices nothing.

    python tests/hosts/attach_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import hosts_test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import interpreters  # noqa: E402

MIB = 1 << 20
FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")


class AttachTest(hosts_test.HostTest):
    def setUp(self):
        super().setUp()
        self.stop = self.folder / "stop"
        self.variables = self.environment(preload=False, XDG_RUNTIME_DIR=str(self.folder))
        self.running = []
        self.addCleanup(lambda: [process.kill() for process in self.running if process.poll() is None])

    def start(self, way, *more):
        command = [str(hosts_test.HOSTS / "attach_host"), way, str(self.stop), *map(str, more)]
        process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def gpumem(self, *words, code=0):
        environment = self.variables | {"GPUMEMSHIM_RING_DIRECTORY": self.ring_folder}
        done = subprocess.run([str(self.setup.gpumem), *map(str, words)], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def attach(self, process, *options):
        (answer,) = json.loads(self.gpumem("attach", process.pid, "--json", *options))["processes"]
        self.assertEqual((answer["pid"], answer["state"], answer["lost_events"]), (process.pid, "recording", 0))
        return answer

    def end(self, process):
        self.stop.touch()
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output, errors), (0, "", ""))
        self.stop.unlink()


class AnyMoment(AttachTest):
    def check(self, way, times, thorough=125):
        for _ in range(thorough if FULL else times):
            process = self.start(way)
            time.sleep(random.random() * 0.02)
            self.assertFalse(self.attach(process)["was_there"])
            self.end(process)

    def test_eight_threads_in_the_allocator(self):
        self.check("malloc", 10, thorough=500)

    def test_one_thread_that_never_calls(self):
        self.check("compute", 5)

    def test_sleeps_are_of_full_length(self):
        self.check("sleep", 5)

    def test_under_a_timer(self):
        self.check("signals", 5)

    def test_an_event_loop(self):
        """The one thread waits for ever, and the kernel would end that with EINTR."""
        for _ in range(5 * (25 if FULL else 1)):
            process = self.start("events")
            time.sleep(random.random() * 0.02)
            self.assertFalse(self.attach(process)["was_there"])
            process.stdin.write("a line\n")
            process.stdin.flush()
            self.gpumem("attach", "--stop", process.pid)
            self.assertIsNone(process.poll())
            self.assertEqual((process.communicate(timeout=60), process.returncode), (("", ""), 0))

    def test_waiting_for_the_gpu(self):
        """Inside of the driver all the time."""
        for _ in range(2 * (25 if FULL else 1)):
            process = self.start("waits")
            self.attach(process, "-o", self.folder / "run.gmtrace")
            self.end(process)
            report = self.report()
            self.assertEqual((report["devices"][0]["peak"]["total_bytes"], report["losses"]["total"]), (7 * MIB, 0))
            (self.folder / "run.gmtrace").unlink()

    def test_two_threads_in_the_loader(self):
        """New libraries are in its list before their slots are bound: what we write there must not be bound again."""
        for plugin in ("unseen_plugin", "processes_plugin"):
            for _ in range(3 * (25 if FULL else 1)):
                process = self.start("loads", hosts_test.HOSTS / f"lib{plugin}.so")
                time.sleep(random.random() * 0.02)
                self.attach(process)
                time.sleep(1.5)  # some looks at what was loaded later
                self.end(process)


class TheProgramDies(AttachTest):
    def test_killed_at_any_moment(self):
        """It is said, in an instant, and nothing is left."""
        for way in ("malloc", "driver", "sleep"):
            for _ in range(100 if FULL else 8):
                process = self.start(way)
                attacher = subprocess.Popen([str(self.setup.gpumem), "attach", str(process.pid)], cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(random.random() * 0.04)
                process.kill()
                process.communicate()
                output, errors = attacher.communicate(timeout=60)
                if attacher.returncode == 0:  # it was done before
                    self.assertIn("recording", output)
                else:
                    self.assertEqual((attacher.returncode, len(errors.splitlines())), (3, 1), output + errors)
                    self.assertRegex(errors, f"process {process.pid}|no process")


class TheAttacherDies(AttachTest):
    def test_killed_at_any_moment(self):
        """What it was about to do is done or not, and the next one succeeds."""
        for way in ("malloc", "sleep"):
            process = self.start(way)
            for _ in range(100 if FULL else 15):
                attacher = subprocess.Popen([str(self.setup.gpumem), "attach", str(process.pid)], env=self.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(random.random() * 0.03)
                attacher.send_signal(signal.SIGKILL)
                attacher.wait()
                self.assertIsNone(process.poll(), process)
            self.attach(process)
            self.end(process)


class AgainAndAgain(AttachTest):
    def facts(self, process):
        folder = pathlib.Path(f"/proc/{process.pid}")
        mapped = (folder / "maps").read_text().count("\n")
        return mapped, len(list((folder / "task").iterdir())), len(list((folder / "fd").iterdir()))

    def test_nothing_grows(self):
        process = self.start("driver")
        first = self.attach(process, "-o", self.folder / "run.gmtrace")
        self.assertFalse(first["was_there"])
        self.gpumem("attach", "--stop", process.pid)
        for _ in range(5):
            self.attach(process)
            self.gpumem("attach", "--stop", process.pid)
        before = self.facts(process)
        for _ in range(100 if FULL else 20):
            self.assertTrue(self.attach(process)["was_there"])
            self.gpumem("attach", "--stop", process.pid)
        after = self.facts(process)
        self.assertEqual(after[1:], before[1:])
        self.assertLessEqual(after[0], before[0] + 2)
        self.end(process)


class WhatIsSeen(AttachTest):
    def test_pointers_that_were_looked_up_before(self):
        process = self.start("driver")
        self.attach(process, "-o", self.folder / "run.gmtrace")
        time.sleep(0.3)
        self.gpumem("ctl", process.pid, "flush")
        self.end(process)
        report = self.report()
        self.assertTrue(report["complete"])
        (device,) = report["devices"]
        self.assertEqual((device["peak"]["total_bytes"], device["end"]["total_bytes"]), (5 * MIB, 0))
        self.assertGreater(report["events"]["by_kind"]["alloc"], 10)
        self.assertEqual(report["losses"]["total"], 0)

    def test_a_runtime_in_the_program(self):
        """That loads the driver itself: what is allocated from then on is in the trace, each once."""
        command = [str(hosts_test.HOSTS / "attach_static_host"), str(self.stop)]
        process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        trace = self.folder / "run.gmtrace"
        self.attach(process, "-o", trace)
        self.end(process)
        report = self.report()
        self.assertEqual(report["losses"]["total"], 0)
        sizes = [(1000 + i) * 1024 for i in range(50)]
        seen = [event["size_bytes"] for event in hosts_test.history.events_of(self.setup, trace) if event["kind"] == "alloc" and event["size_bytes"] >= 1000 * 1024]
        self.assertEqual(seen, sizes)
        (device,) = report["devices"]
        self.assertEqual((device["peak"]["total_bytes"], device["end"]["total_bytes"]), (sum(sizes), 0))

    def test_libraries_loaded_later(self):
        """Seen within a second or so, with the copy of the runtime that they bring."""
        for plugin in ("unseen_plugin", "processes_plugin"):
            process = self.start("later", hosts_test.HOSTS / f"lib{plugin}.so")
            trace = self.folder / f"{plugin}.gmtrace"
            self.attach(process, "-o", trace)
            process.stdin.write("go\n")
            process.stdin.flush()
            deadline = time.monotonic() + 60
            while json.loads(self.gpumem("ctl", process.pid, "flush", "--json"))["events"] < 20 and time.monotonic() < deadline:
                time.sleep(0.1)
            self.end(process)
            with self.subTest(plugin=plugin):
                report = json.loads(self.gpumem("report", "--json", trace))
                self.assertEqual(report["losses"]["unseen"], [])
                self.assertGreater(report["events"]["by_kind"]["alloc"], 8)

    def test_a_time(self):
        process = self.start("driver")
        text = self.gpumem("attach", process.pid, "--duration", "300ms")
        self.assertIn("one thread stood still for", text)
        self.assertIn("detached", text)
        self.assertIn("paused", self.gpumem("ctl", process.pid))
        self.end(process)

    def test_by_name(self):
        process = self.start("driver")
        self.assertIn("recording", self.gpumem("attach", "--name", self.stop))
        self.assertIn("has \"nobody-is-called-so\" in its command line", self.gpumem("attach", "--name", "nobody-is-called-so", code=3))
        self.end(process)

    def test_until_memory_fails(self):
        process = self.start("fails")
        text = self.gpumem("attach", process.pid, "--until-oom", "--duration", "60s", "-o", self.folder / "run.gmtrace")
        self.assertIn(f"process {process.pid} is out of memory", text)
        self.assertIn("detached", text)
        self.end(process)
        self.assertIn(str(1 << 50), self.gpumem("oom", "--json", self.folder / "run.gmtrace"))

    def test_all_below(self):
        process = self.start("driver")
        text = self.gpumem("attach", "--all-ranks", os.getpid())
        self.assertIn(f"process {process.pid}", text)
        self.end(process)


class EveryPython(AttachTest):
    PROGRAM = """if True:
        import os, sys, threading
        print("ready", flush=True)
        def work():
            total = 0
            while not os.path.exists(sys.argv[1]):
                total += sum(range(1000))
            return total
        threads = [threading.Thread(target=work) for _ in range(3)]
        [thread.start() for thread in threads]
        work()
        [thread.join() for thread in threads]
        print("fine")
    """

    def test_three_threads_of_each(self):
        pythons = interpreters.find()
        self.assertTrue(pythons)
        print(f"  found {[python.version for python in pythons]}, absent {interpreters.absent(pythons)}")
        for python in pythons:
            with self.subTest(python=python.version):
                command = [python.path, "-S", "-c", self.PROGRAM, str(self.stop)]
                process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.running.append(process)
                self.assertEqual(process.stdout.readline(), "ready\n")
                self.assertFalse(self.attach(process)["was_there"])
                self.gpumem("attach", "--stop", process.pid)
                self.assertTrue(self.attach(process)["was_there"])
                self.stop.touch()
                self.assertEqual((process.communicate(timeout=60), process.returncode), (("fine\n", ""), 0))
                self.stop.unlink()


class Doctor(AttachTest):
    def traced(self, process):
        (finding,) = [each for each in json.loads(self.gpumem("doctor", "--json", process.pid, code=None))["findings"] if each["check"] == "traced"]
        return finding

    def test_says_beforehand_whether_it_will_do(self):
        process = self.start("driver")
        self.assertEqual(self.traced(process)["next"], f"gpumemshim attach {process.pid}")
        self.attach(process)
        self.assertIn("is loaded", self.traced(process)["found"])
        self.end(process)


class Refusals(AttachTest):
    def test_what_stands_against_it_is_said(self):
        self.assertIn("there is no process", self.gpumem("attach", 2**22 + 1, code=3))
        process = self.start("sleep")
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while "T (stopped)" not in pathlib.Path(f"/proc/{process.pid}/status").read_text() and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertIn(f"kill -CONT {process.pid}", self.gpumem("attach", process.pid, code=1))
        process.send_signal(signal.SIGCONT)
        self.attach(process)
        process.kill()
        process.communicate()
        process = self.start("sleep")
        process.kill()
        process.wait()
        self.assertIn("no process", self.gpumem("attach", process.pid, code=3))

    def test_a_process_that_is_traced(self):
        process = self.start("sleep")
        tracer = subprocess.Popen(
            [sys.executable, "-c", "import ctypes, sys; p = ctypes.CDLL(None).ptrace; print(p(0x4206, int(sys.argv[1]), 0, 0), flush=True); sys.stdin.read()", str(process.pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.assertEqual(tracer.stdout.readline(), "0\n")
        self.assertIn(f"is being traced by process {tracer.pid}", self.gpumem("attach", process.pid, code=3))
        tracer.communicate("")
        self.attach(process)
        self.end(process)


if __name__ == "__main__":
    hosts_test.main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Small victim programs with the recorder in front: every call that the simulated driver logged is in the trace, and however a program ends, it
ends as if it were not recorded.

    python tests/hosts/hosts_test.py --build build/release --hosts build/release/tests/hosts
"""

import argparse
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import history  # noqa: E402
import truth  # noqa: E402

BUILD = HOSTS = None
BLOCKS = 100  # of host_endings
CONTEXTS = 1  # that its runtime makes


def wait_for(condition):
    """Until it is so; not for a time, but for a minute at most."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


class HostTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-hosts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Rings of hosts that end without a goodbye would stay in /dev/shm.
        rings = tempfile.TemporaryDirectory(prefix="gpumemshim-rings-")
        self.addCleanup(rings.cleanup)
        self.ring_folder = rings.name
        self.setup = truth.Setup(BUILD, sys.executable, simulated=True, timeout_s=800)

    def environment(self, preload=True, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "SIMCUDA_", "LD_"))}
        environment["LD_LIBRARY_PATH"] = str(BUILD / "lib" / "simcuda")
        if preload:
            environment["LD_PRELOAD"] = str(BUILD / "lib" / "libgpumemshim.so")
            environment["GPUMEMSHIM_RING_DIRECTORY"] = self.ring_folder
        environment.update(more)
        return environment

    def for_others(self, host, environment):
        """A host program and its environment with copies that another user may read: the build may lie below a home folder that is closed to all but one."""
        if not hasattr(self, "copies"):
            folder = tempfile.TemporaryDirectory(prefix="gpumemshim-others-")
            self.addCleanup(folder.cleanup)
            self.copies = pathlib.Path(folder.name)
            self.copies.chmod(0o755)
            shutil.copytree(BUILD / "lib" / "simcuda", self.copies / "lib" / "simcuda")
            shutil.copy(BUILD / "lib" / "libgpumemshim.so", self.copies / "lib")
        moved = {name: value.replace(str(BUILD / "lib"), str(self.copies / "lib")) for name, value in environment.items() if name.startswith("LD_")}
        return shutil.copy(host, self.copies), {**environment, **moved}

    def run_host(self, *command, preload=True, **more):
        command = [str(HOSTS / command[0]), *command[1:]]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment(preload, **more), capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL
        )

    def traces(self):
        """Those that something was written to: a kill may fall between the creation of a file and its first packet."""
        return sorted(trace for trace in self.folder.glob("*.gmtrace") if trace.stat().st_size > 0)

    def the_trace(self):
        traces = self.traces()
        self.assertEqual(len(traces), 1, traces)
        return traces[0]

    def report(self, *options):
        return truth.report(self.setup, self.the_trace(), *options)


class AgainstTheDriversLog(HostTest):
    def compare(self, *command):
        log = self.folder / "log.tsv"
        done = self.run_host(*command, SIMCUDA_LOG=str(log))
        self.assertEqual(done.returncode, 0, done.stderr)
        events, rows = list(history.events_of(self.setup, self.the_trace())), list(history.rows_of_log(log))
        self.assertGreater(len(rows), 5)
        self.assertEqual(list(history.log_differences(events, rows)), [])
        return events, rows

    def test_eight_threads_through_the_runtime(self):
        events, rows = self.compare("host_threads", "500")
        self.assertEqual(sum(event["kind"] == "alloc" for event in events), 8 * 500)
        self.assertEqual({event["layer"] for event in events if event["kind"] != "context_create"}, {"runtime"})
        self.assertEqual(len({event["thread"] for event in events}), 9)
        answer = self.report()
        self.assertEqual(answer["devices"][0]["end"]["total_bytes"], int(rows[-1]["live_bytes"]))

    def test_a_runtime_linked_statically(self):
        """Its own functions are the program's; what it asks of the driver is seen."""
        events, rows = self.compare("host_threads_static", "200")
        self.assertEqual(sum(event["kind"] == "alloc" for event in events), 8 * 200)
        self.assertEqual({event["layer"] for event in events}, {"driver"})
        self.assertEqual(self.report()["devices"][0]["end"]["total_bytes"], int(rows[-1]["live_bytes"]))

    def test_every_kind_of_memory_through_the_driver(self):
        events, rows = self.compare("host_driver")
        self.assertEqual({event["layer"] for event in events if event["kind"] != "oom_device"}, {"driver"})
        self.assertEqual(list(history.live_differences(self.report(), rows)), [])

    def test_failures_are_events(self):
        events, _ = self.compare("host_driver")
        failed = [event for event in events if event["kind"] == "alloc_failed"]
        self.assertEqual([(event["size_bytes"], event["result"]) for event in failed], [(1 << 60, 2)])
        wrong = [index for index, event in enumerate(events) if event["kind"] == "free_failed"]
        self.assertEqual(len(wrong), 1)
        self.assertEqual(events[wrong[0] - 1]["kind"], "free")
        self.assertEqual(events[wrong[0] - 1]["address"], events[wrong[0]]["address"])


class Endings(HostTest):
    def compare_with_bare(self, *ending):
        """The program's output and end are those without us, our one line apart. Returns that line."""
        bare = self.run_host("host_endings", *ending, preload=False)
        done = self.run_host("host_endings", *ending)
        self.assertEqual(done.returncode, bare.returncode)
        self.assertEqual(done.stdout, bare.stdout)
        ours = [line for line in done.stderr.splitlines() if line.startswith("gpumemshim:")]
        self.assertEqual([line for line in done.stderr.splitlines() if not line.startswith("gpumemshim:")], bare.stderr.splitlines())
        self.assertLessEqual(len(ours), 1, done.stderr)
        return ours[0] if ours else None

    def test_return_and_exit(self):
        for ending in (("return",), ("exit", "3"), ("_exit", "4"), ("throw",)):
            with self.subTest(ending=ending):
                for trace in self.traces():
                    trace.unlink()
                line = self.compare_with_bare(*ending)
                trace = self.the_trace()
                self.assertIn(trace.name, line)
                self.assertIn(f"{BLOCKS + CONTEXTS} events (0 torch, {BLOCKS} runtime, {CONTEXTS} driver)", line)
                self.assertIn("gpumemshim report", line)
                self.assertEqual(stat.S_IMODE(trace.stat().st_mode), 0o600)
                answer = self.report()
                self.assertTrue(answer["complete"])
                self.assertEqual(answer["devices"][0]["end"]["total_bytes"], BLOCKS << 20)

    def test_ends_without_a_goodbye(self):
        self.compare_with_bare("abort")
        for trace in self.traces():
            self.assertFalse(truth.report(self.setup, trace)["complete"])

    def test_kill(self):
        host = subprocess.Popen([str(HOSTS / "host_endings"), "wait"], cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, text=True)
        with host:
            self.assertEqual(host.stdout.readline(), "ready\n")
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (self.traces() and self.report()["events"]["runtime"] == BLOCKS):
                time.sleep(0.02)
            host.send_signal(signal.SIGKILL)
        answer = self.report()
        self.assertEqual(answer["events"]["runtime"], BLOCKS)
        self.assertFalse(answer["complete"])
        text = truth.run([self.setup.gpumem, "report", "--full", str(self.the_trace())], self.setup)
        self.assertIn("The end is missing", text)

    def test_a_child_without_cuda_leaves_nothing(self):
        line = self.compare_with_bare("fork")
        self.assertIn(self.the_trace().name, line)

    def test_no_cuda_no_trace(self):
        for ending in ("no-cuda", "only-init"):
            self.assertIsNone(self.compare_with_bare(ending, "5"))
        self.assertEqual(self.traces(), [])
        self.assertEqual(list(self.folder.iterdir()), [])


class RecoveryTest(HostTest):
    """What was recorded before an end without a goodbye is all there, without waiting for the writer's next append."""

    def setUp(self):
        super().setUp()
        self.rings = self.folder / "rings"
        self.rings.mkdir()

    def end(self, *ending):
        environment = self.environment(GPUMEMSHIM_RING_DIRECTORY=str(self.rings))
        host = subprocess.Popen([str(HOSTS / "host_endings"), *ending], cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with host:
            if ending == ("wait",):
                self.assertEqual(host.stdout.readline(), "ready\n")
                host.send_signal(signal.SIGKILL)

    def recover(self, *arguments):
        command = [self.setup.gpumem, "export", "trace", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, env=self.environment(preload=False), capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_event_is_there(self):
        for ending in (("abort",), ("wait",)):
            with self.subTest(ending=ending):
                for file in (*self.traces(), *self.rings.iterdir()):
                    file.unlink()
                self.end(*ending)
                (ring,) = self.rings.iterdir()
                if not self.traces():  # it ended before the first append
                    self.recover(ring)
                answer = self.report()
                self.assertEqual(answer["events"]["runtime"], BLOCKS)
                self.assertEqual(answer["devices"][0]["end"]["total_bytes"], BLOCKS << 20)
                self.assertFalse(answer["complete"])
                self.assertFalse(answer["running"])

    TWO_PARTS = """
import ctypes, os, signal, time
runtime, memory = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
def allocate(count):
    for _ in range(count):
        assert runtime.cudaMalloc(ctypes.byref(memory), 1 << 20) == 0
allocate(50)
while not any(name.endswith(".gmtrace") and os.path.getsize(name) for name in os.listdir(".")):
    time.sleep(0.01)
allocate(70)
os.kill(os.getpid(), signal.SIGKILL)
"""

    def test_file_and_ring_together_and_recovered_once(self):
        environment = self.environment(GPUMEMSHIM_RING_DIRECTORY=str(self.rings))
        subprocess.run([sys.executable, "-c", self.TWO_PARTS], cwd=self.folder, env=environment, timeout=600)
        trace = self.the_trace()
        self.assertEqual(self.report()["events"]["runtime"], 120)
        self.recover("--in-place", trace)
        self.assertEqual(self.report()["events"]["runtime"], 120)  # the ring is still there
        self.recover("--delete", trace)
        self.assertEqual(self.report()["events"]["runtime"], 120)


class Settings(HostTest):
    def test_quiet(self):
        self.assertEqual(self.run_host("host_endings", GPUMEMSHIM_QUIET="1").stderr, "")
        self.the_trace()

    def test_output_pattern(self):
        self.run_host("host_endings", GPUMEMSHIM_OUTPUT="%n-%r-%p.gmtrace", RANK="3", WORLD_SIZE="8")
        self.assertRegex(self.the_trace().name, r"^host_endings-3-\d+\.gmtrace$")

    def test_rank_in_the_default_name(self):
        self.run_host("host_endings", RANK="3", TORCHELASTIC_RUN_ID="2e3e8bb6-3725-4d44-8235-ebd9b0de5668")
        self.assertRegex(self.the_trace().name, r"^gpumemshim\.host_endings\.2e3e8bb6\.[\w-]+\.\d+\.r3\.gmtrace$")

    def test_an_output_that_cannot_be_written_changes_nothing(self):
        done = self.run_host("host_endings", "exit", "6", GPUMEMSHIM_OUTPUT="/proc/no/such/folder/x.gmtrace", TMPDIR=str(self.folder))
        self.assertEqual(done.returncode, 6)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("/proc/no/such/folder", done.stderr)
        self.assertIn(self.the_trace().name, done.stderr)

    def test_names_that_are_no_text(self):
        name = os.fsdecode(b"caf\xe9-\xff\x1b[31m")
        (self.folder / name).mkdir()
        done = self.run_host("host_endings", "return", "0", name, GPUMEMSHIM_OUTPUT="out.gmtrace")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = self.report()
        self.assertTrue(answer["complete"])
        self.assertEqual(answer["events"]["runtime"], BLOCKS)

    def test_gpumem_run_passes_exit_code_and_signal(self):
        def run(*ending):
            command = [self.setup.gpumem, "run", "-o", str(self.folder / "%p.gmtrace"), "--", str(HOSTS / "host_endings"), *ending]
            return subprocess.run(command, env=self.environment(preload=False), capture_output=True, timeout=600).returncode

        self.assertEqual(run("exit", "9"), 9)
        self.assertIn(run("abort"), (-signal.SIGABRT, 128 + signal.SIGABRT))


class Files(HostTest):
    def test_two_traces_in_a_row_are_a_trace(self):
        self.run_host("host_endings", GPUMEMSHIM_OUTPUT="a.gmtrace")
        self.run_host("host_endings", GPUMEMSHIM_OUTPUT="b.gmtrace")
        both = self.folder / "both.gmtrace"
        both.write_bytes(b"".join((self.folder / name).read_bytes() for name in ("a.gmtrace", "b.gmtrace")))
        events = truth.run([self.setup.gpumem, "export", "events", str(both)], self.setup).splitlines()
        self.assertEqual(len(events), 2 * (BLOCKS + CONTEXTS))

    def test_protoc_reads_it(self):
        self.run_host("host_endings")
        with open(self.the_trace(), "rb") as file:
            text = subprocess.run(
                ["protoc", "-I", str(truth.ROOT / "proto"), "--decode", "gpumem.trace.Trace", "gpumem/trace.proto"], stdin=file, capture_output=True, check=True
            ).stdout
        self.assertIn(b'program: "host_endings"', text)

    def test_a_name_that_is_taken(self):
        for _ in range(3):
            self.run_host("host_endings", GPUMEMSHIM_OUTPUT="same.gmtrace")
        self.assertEqual(len(list(self.folder.glob("same*"))), 3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--hosts", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    global BUILD, HOSTS
    BUILD, HOSTS = arguments.build.resolve(), arguments.hosts.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

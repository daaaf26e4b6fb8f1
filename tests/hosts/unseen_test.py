# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Calls of CUDA that go past the recorder: what the trace lacks, by the simulated driver's log, is what its notes name, and nothing is said
where nothing is missing.

    python tests/hosts/unseen_test.py --build build/release --hosts build/release/tests/hosts
"""

import collections
import json
import pathlib
import shutil
import subprocess
import time

import hosts_test
import history
import truth

MIB = 1 << 20
SEEN, KEPT, GONE = 11 * MIB, 3 * MIB, 5 * MIB  # of the host itself; of its plugins


class UnseenTest(hosts_test.HostTest):
    def run_way(self, way, *file, code=0):
        self.done = self.run_host("unseen_host", way, *map(str, file), SIMCUDA_LOG=str(self.folder / "log.tsv"))
        self.assertEqual((self.done.returncode, self.done.stdout), (code, "done\n"), self.done.stderr)

    def plugin(self, name):
        return hosts_test.HOSTS / f"lib{name}.so"

    def missing(self, another_driver=False):
        """Sizes of the allocations that the driver logged and the trace lacks."""
        logged = collections.Counter(
            int(row["size"]) for row in history.rows_of_log(self.folder / "log.tsv") if row["kind"] == "alloc"
        )
        recorded = collections.Counter(event["size_bytes"] for event in history.events_of(self.setup, self.the_trace()) if event["kind"] == "alloc")
        if not another_driver:  # which begins the log anew
            self.assertEqual(recorded - logged, collections.Counter())
        self.assertEqual(recorded[SEEN], 1)
        return sorted((logged - recorded).elements())

    def unseen(self):
        self.answer = self.report()
        return [
            (each["cause"], pathlib.Path(each["object"]).name, each["functions"], each["function_count"])
            for each in self.answer["losses"]["unseen"]
        ]

    def check_reported(self, words):
        """In the report and in `info`, to people."""
        for command in (("report", "--full"), ("info",)):
            text = " ".join(truth.run([self.setup.gpumem, *command, str(self.the_trace())], self.setup).split())
            self.assertIn("calls of CUDA went past the recorder: see the notes", text)
            self.assertNotIn("every event is in the trace", text)
            self.assertIn(words, text)

    def check_rest(self, missed):
        """The device knows of the memory, so it is in what is not explained, and no part of it is taken for the context."""
        breakdown = self.answer["devices"][0]["breakdown"]["at_end"]
        self.assertNotIn("context_estimate", [part["part"] for part in breakdown["parts"]])
        self.assertGreaterEqual(breakdown["unexplained_bytes"], missed + 512 * MIB)
        self.assertLess(breakdown["unexplained_bytes"], missed + 512 * MIB + 4 * MIB)
        self.assertIn("past the recorder", breakdown["guess"])


class NothingIsMissing(UnseenTest):
    def test_plain(self):
        self.run_way("plain")
        self.assertEqual((self.missing(), self.unseen()), ([], []))

    def test_a_runtime_that_was_there_before(self):
        # Its calls go past our runtime functions and reach the driver's.
        self.run_way("late", self.plugin("processes_plugin"))
        self.assertEqual((self.missing(), self.unseen()), ([], []))


class WhatIsMissingIsSaid(UnseenTest):
    def test_deepbind_with_a_runtime(self):
        self.run_way("deepbind", self.plugin("processes_plugin"))
        self.assertEqual(self.missing(), [KEPT, GONE])
        self.assertEqual(self.unseen(), [("looked_up_past", "libcudart.so.13", [], 0)])
        self.check_reported("libcudart.so.13 found the driver past the recorder")

    def test_deepbind_with_the_driver(self):
        self.run_way("deepbind", self.plugin("unseen_plugin"))
        self.assertEqual(self.missing(), [KEPT, GONE])
        functions = ["cuInit", "cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "cuMemFree_v2"]
        self.assertEqual(self.unseen(), [("bound_past", "libunseen_plugin.so", functions, 4)])
        self.check_reported("libunseen_plugin.so calls CUDA past the recorder (cuInit, cuDevicePrimaryCtxRetain, cuMemAlloc_v2, cuMemFree_v2)")
        self.check_rest(KEPT)

    def test_a_namespace(self):
        self.run_way("namespace", self.plugin("processes_plugin"))
        self.assertEqual(self.missing(another_driver=True), [KEPT, GONE])
        self.assertEqual(self.unseen(), [("other_namespace", "libcuda.so.1", [], 0)])
        self.check_reported("A namespace of dlmopen has a driver of its own")

    def test_a_second_driver(self):
        folder = self.folder / "other"
        folder.mkdir()
        shutil.copy(hosts_test.BUILD / "lib" / "simcuda" / "libcuda.so.1", folder / "libcuda.so.1")
        self.run_way("second", folder / "libcuda.so.1")
        self.assertEqual(self.missing(another_driver=True), [KEPT])
        self.assertEqual(self.unseen(), [("second_driver", "libcuda.so.1", [], 0)])
        self.assertIn("/other/", self.answer["losses"]["unseen"][0]["object"])
        self.check_reported("A second driver is loaded")


    def test_pointers_on_the_heap(self):
        """Taken before CUDA loaded the library. Said at once, since nobody can look for them."""
        library = str(hosts_test.BUILD / "lib" / "libgpumemshim.so")
        log = str(self.folder / "log.tsv")
        done = self.run_host("unseen_host", "heap", preload=False, CUDA_INJECTION64_PATH=library, GPUMEMSHIM_RING_DIRECTORY=self.ring_folder, SIMCUDA_LOG=log)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertEqual(self.missing(), [KEPT])
        self.assertIn("function pointers kept on the heap, are not seen", " ".join(self.report()["notes"]))


class WhatNobodyCanTell(UnseenTest):
    def test_a_program_that_reads_the_driver_itself(self):
        self.run_way("reads", "-")
        self.assertEqual((self.missing(), self.unseen()), ([KEPT], []))

    def test_pointers_taken_early_under_a_preload(self):
        """No pointer is taken before a preload."""
        self.run_way("heap", "-")
        self.assertEqual((self.missing(), self.unseen()), ([], []))


class WhileItRuns(UnseenTest):
    def doctor(self, way, *file, injected=False):
        """What `gpumemshim doctor PID` says of calls that are not seen, once the recorder has looked."""
        command = [str(hosts_test.HOSTS / "unseen_host"), way, *map(str, file), "hold"]
        environment = self.environment(XDG_RUNTIME_DIR=str(self.folder))
        if injected:
            environment["CUDA_INJECTION64_PATH"] = environment.pop("LD_PRELOAD")
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as host:
            self.assertEqual(host.stdout.readline(), "done\n")
            deadline = time.monotonic() + 60
            while True:
                asked = subprocess.run(
                    [self.setup.gpumem, "doctor", "--json", str(host.pid)], env=environment | {"LD_PRELOAD": ""}, capture_output=True, text=True, timeout=60
                )
                (seen,) = [finding for finding in json.loads(asked.stdout)["findings"] if finding["check"] == "seen"]
                if seen["health"] == "warn" or way == "plain" or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
            host.stdin.close()
        self.assertEqual(host.returncode, 0)
        return seen["health"], seen["found"]

    def test_doctor(self):
        self.assertEqual(self.doctor("plain", "none"), ("ok", "no calls of CUDA are known to go past the recorder"))
        health, found = self.doctor("deepbind", self.plugin("unseen_plugin"))
        self.assertEqual(health, "warn")
        self.assertIn("libunseen_plugin.so calls it past the recorder", found)
        self.assertEqual(self.doctor("namespace", self.plugin("processes_plugin"))[0], "warn")

    def test_doctor_where_cuda_loaded_the_library(self):
        health, found = self.doctor("heap", "-", injected=True)
        self.assertEqual(health, "warn")
        self.assertIn("loaded by CUDA_INJECTION64_PATH", found)

    def test_doctor_where_nothing_was_seen(self):
        """By what is loaded: two drivers."""
        folder = self.folder / "other"
        folder.mkdir()
        shutil.copy(hosts_test.BUILD / "lib" / "simcuda" / "libcuda.so.1", folder / "libcuda.so.1")
        health, found = self.doctor("second", folder / "libcuda.so.1")
        self.assertEqual(health, "warn")
        self.assertRegex(found, "second driver|loaded 2 times")


class WithoutATrace(UnseenTest):
    def check_line(self, plugin, words):
        self.run_way("alone", self.plugin(plugin))
        self.assertEqual(self.traces(), [])
        self.assertEqual(len(self.done.stderr.splitlines()), 1, self.done.stderr)
        self.assertIn("gpumemshim: no trace written, although CUDA is there", self.done.stderr)
        self.assertIn(words, self.done.stderr)

    def test_nothing_was_seen(self):
        self.check_line("processes_plugin", "libcudart.so.13 calls it past the recorder")
        self.check_line("unseen_plugin", "libunseen_plugin.so calls it past the recorder")

    def test_quiet(self):
        done = self.run_host("unseen_host", "alone", str(self.plugin("unseen_plugin")), GPUMEMSHIM_QUIET="1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    hosts_test.main()

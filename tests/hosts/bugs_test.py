# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What broke other interposers of CUDA, a test each: the program's answers are those without us, and the trace agrees with the simulated
driver's log. Forks, children and hundreds of starts at once are in processes_test.py, other interposers in preloads_test.py.

    python tests/hosts/bugs_test.py --build build/release --hosts build/release/tests/hosts
"""

import os
import re
import subprocess

import hosts_test
import history

MIB = 1 << 20


class BugTest(hosts_test.HostTest):
    def answers(self, *arguments, behind="", **more):
        """What the case prints, the same with and without us. `behind`: a preload behind ours."""
        results = []
        for preload in (False, True):
            environment = self.environment(preload, SIMCUDA_LOG=str(self.folder / f"log.{preload}.tsv"), SIMCUDA_DEVICES="2", **more)
            if behind:
                library = str(hosts_test.HOSTS / behind)
                environment["LD_PRELOAD"] = f"{environment['LD_PRELOAD']}:{library}" if preload else library
            command = [str(hosts_test.HOSTS / "bugs_host"), *arguments]
            results.append(subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60))
        bare, done = results
        theirs = [line for line in done.stderr.splitlines() if not line.startswith("gpumemshim:")]
        self.assertEqual((done.returncode, done.stdout.splitlines(), theirs), (0, bare.stdout.splitlines(), bare.stderr.splitlines()))
        return done.stdout.splitlines()

    def events(self, last_row=None):
        """The trace's events, after a comparison with the log."""
        events, rows = list(history.events_of(self.setup, self.the_trace())), list(history.rows_of_log(self.folder / "log.True.tsv"))[:last_row]
        self.assertEqual(list(history.log_differences(events, rows)), [])
        return events

    def of_kind(self, events, *kinds):
        return [event for event in events if event["kind"] in kinds]


class Device(BugTest):
    def test_worker_without_a_context(self):
        """cuMemCreate there: the device is the one that the properties name."""
        self.assertEqual(self.answers("worker").count("cuMemCreate 0"), 2)
        created = self.of_kind(self.events(), "physical_create")
        self.assertEqual([(event["device"], event["memory"], event["size_bytes"]) for event in created], [(1, "physical", 2 * MIB)] * 2)
        answer = self.report()
        self.assertEqual([(device["device"], device["end"]["total_bytes"]) for device in answer["devices"] if device["end"]["total_bytes"]], [(1, 2 * MIB)])

    def test_memory_of_a_numa_node(self):
        """cuMemCreate on the host, as NCCL probes for it, belongs to no device."""
        self.assertEqual(self.answers("numa").count("cuMemCreate 0"), 2)
        created = self.of_kind(self.events(), "physical_create")
        self.assertEqual([(event["device"], event["memory"]) for event in created], [(-1, "physical_host")] * 2)
        self.assertFalse(any(device["end"]["total_bytes"] for device in self.report()["devices"]))

    def test_freed_while_another_device_is_current(self):
        """The memory goes from the device that it was on."""
        self.answers("other-device")
        self.events()
        ends = {device["device"]: device["end"]["total_bytes"] for device in self.report()["devices"]}
        self.assertEqual(ends, {0: 0, 1: 10 * MIB})


class Arguments(BugTest):
    def test_null_out_parameters(self):
        """The driver's answer, not a crash in us; what it turned down is not memory."""
        self.answers("null")
        events = self.events() if self.traces() else []
        self.assertEqual(self.of_kind(events, "alloc", "physical_create", "address_reserve"), [])

    def test_unknown_pointers_freed(self):
        """The real free happens and its result reaches the program; each refusal is taken back in the trace."""
        answers = self.answers("unknown")
        self.assertEqual(answers[-1], "cuMemFree 0")
        refused = sum(not line.endswith(" 0") for line in answers)
        self.assertGreaterEqual(refused, 6)
        self.assertEqual(len(self.of_kind(self.events(), "free_failed")), refused)
        self.assertEqual(self.report()["devices"][0]["end"]["total_bytes"], 0)

    def test_a_query_that_fails_after_the_call(self):
        """The allocation stands, in the program and in the trace; only its device is not known."""
        answers = self.answers("query", behind="libcuda.so.query")
        self.assertEqual(answers[1:], ["cuMemAlloc 0", "cuMemAllocAsync 0", "cuMemFreeAsync 0"])
        allocations = self.of_kind(self.events(), "alloc")
        self.assertEqual([event["device"] for event in allocations], [-1, -1])


class Capture(BugTest):
    def test_is_not_broken(self):
        """No call of ours in a hook that synchronises: neither 900 nor a lost graph where there was none without us."""
        answers = self.answers("capture")
        self.assertEqual(answers.count("graph there"), 3)


class LookUps(BugTest):
    def test_both_resolvers(self):
        """cuGetProcAddress of CUDA 11 and of CUDA 12, each for both kinds of stream: every allocation is seen."""
        answers = self.answers("resolve")
        self.assertEqual(answers.count("allocate 0"), 9)
        self.assertEqual(len(self.of_kind(self.events(), "alloc")), 9)

    def test_nothing_begins_in_a_look_up(self):
        self.answers("lookups")
        self.assertEqual(self.traces(), [])
        self.assertEqual(os.listdir(self.ring_folder), [])

    def test_deep_binding(self):
        """RTLD_DEEPBIND takes a library's calls past us; they are seen where the runtime, loaded before it, calls the driver."""
        self.answers("deepbind", str(hosts_test.HOSTS / "libprocesses_plugin.so"))
        events = self.events(last_row=-1)  # the plugin's destructor, after ours
        self.assertEqual(len(self.of_kind(events, "alloc")), 2)
        self.assertEqual({event["layer"] for event in events}, {"driver"})


class Locks(BugTest):
    def test_none_is_held_across_a_real_call(self):
        """One thread waits in the driver for another that frees."""
        self.answers("block", behind="libpreload_block.so")
        self.assertEqual(len(self.of_kind(self.events(), "alloc")), 2)


class Library(BugTest):
    def read(self, *options):
        return subprocess.run(["readelf", "-W", *options, str(hosts_test.BUILD / "lib" / "libgpumemshim.so")], capture_output=True, text=True, check=True).stdout

    def test_no_constructors(self):
        """One entry, the compiler's own (crtbegin's frame_dummy, which does nothing)."""
        self.assertRegex(self.read("-d"), r"INIT_ARRAYSZ\)\s+8 \(bytes\)")

    def test_every_undefined_symbol_can_be_missing_or_is_plain_c(self):
        """ptxas and its like inherit the preload; a symbol that a C library lacks would end them. These are the ones that only glibc has."""
        undefined = set(re.findall(r"GLOBAL DEFAULT\s+UND (\w+)", self.read("--dyn-syms")))
        self.assertIn("mmap", undefined)
        self.assertEqual(undefined & {"__register_atfork", "strerrordesc_np", "dladdr1", "_dl_find_object", "__tls_get_addr", "dlvsym", "dlsym"}, set())


if __name__ == "__main__":
    hosts_test.main()

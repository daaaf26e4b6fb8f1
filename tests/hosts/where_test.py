# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Reconciliation with nvidia-smi: the parts of a process's share of a device add up to what the simulated driver charges it with, by its own log.

    python tests/hosts/where_test.py --build build/release --hosts build/release/tests/hosts
"""

import csv
import pathlib
import sys
import unittest

import hosts_test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import truth  # noqa: E402

MIB = 1 << 20


class WhereTest(hosts_test.HostTest):
    def run_and_report(self, *command, **more):
        """The report of device 0, and the log's rows of it."""
        log = self.folder / "log.tsv"
        done = self.run_host(*command, SIMCUDA_LOG=str(log), **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.stderr = done.stderr
        self.answer = self.report()
        with open(log, encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file, delimiter="\t") if row["device"] == "0"]
        return self.answer["devices"][0], rows

    def parts(self, breakdown):
        return {part["part"]: part for part in breakdown["parts"]}

    def check_sum(self, breakdown):
        self.assertEqual(sum(part["bytes"] for part in breakdown["parts"]) + breakdown["unexplained_bytes"], breakdown["process_bytes"])

    def check_context(self, breakdown):
        """The first context of a device cannot be measured: a sample says what it takes, and the report that it was a sample."""
        part = self.parts(breakdown)["context_estimate"]
        self.assertEqual(part["basis"], "derived")
        # A program this short may have been sampled in the middle of its calls only.
        self.assertGreater(part["bytes"], 300 * MIB)
        self.assertEqual(part["bytes"] + breakdown["unexplained_bytes"], 512 * MIB)


class AgainstTheDriversLog(WhereTest):
    def test_a_program_of_its_own(self):
        device, rows = self.run_and_report("host_endings", "return")
        used = max(int(row["used_bytes"]) for row in rows)
        for instant in ("at_peak", "at_end"):
            breakdown = device["breakdown"][instant]
            self.check_sum(breakdown)
            self.assertEqual(breakdown["process_bytes"], used, instant)
            # On a busy machine a sample may fall between two calls: what changed since is added, and the sum is derived.
            self.assertIn(breakdown["process_basis"], ("measured", "derived"))
            self.assertEqual(breakdown["sample"]["own_process"], "by_pid")
            parts = self.parts(breakdown)
            self.assertEqual(parts["library"]["bytes"], hosts_test.BLOCKS * MIB)
            self.assertEqual(parts["rounding"]["bytes"], hosts_test.BLOCKS * MIB)  # 1 MiB takes a page of 2
            self.check_context(breakdown)

    def test_pools(self):
        device, rows = self.run_and_report("host_pools")
        breakdown = device["breakdown"]["at_end"]
        self.check_sum(breakdown)
        last = [int(row["used_bytes"]) for row in rows if row["kind"] in ("alloc", "free")][-1]
        self.assertEqual(breakdown["process_bytes"], last)
        parts = self.parts(breakdown)
        # 40 MiB of the 60 were freed, and the pool keeps them: its threshold is the largest.
        self.assertEqual(parts["library"]["bytes"], 20 * MIB)
        self.assertEqual(parts["pool_idle"]["bytes"], 40 * MIB)
        self.check_context(breakdown)

    def test_another_process_on_the_device(self):
        device, rows = self.run_and_report("host_endings", "return", SIMCUDA_OTHERS_MB="3000")
        breakdown = device["breakdown"]["at_end"]
        self.assertEqual(breakdown["process_bytes"], max(int(row["used_bytes"]) for row in rows))
        self.assertEqual([other["used_bytes"] for other in breakdown["sample"]["other_processes"]], [3000 * MIB])
        self.assertEqual(breakdown["sample"]["used_bytes"], breakdown["process_bytes"] + 3000 * MIB)
        self.assertEqual(device["device_use"]["neighbours"][0]["peak_bytes"], 3000 * MIB)
        text = truth.run([self.setup.gpumem, "report", "--full", str(self.the_trace())], self.setup)
        self.assertIn("Reconciliation with nvidia-smi on GPU 0", text)
        self.assertRegex(text, r"another process \(pid \d+\) +2.93 GiB")

    def test_numbers_of_devices_are_cudas(self):
        # CUDA's device 0 is the machine's 1: matched by UUID, never by order.
        device, rows = self.run_and_report("host_endings", "return", SIMCUDA_DEVICES="2", CUDA_VISIBLE_DEVICES="1")
        self.assertEqual(device["device"], 0)
        self.assertEqual(device["breakdown"]["at_end"]["process_bytes"], max(int(row["used_bytes"]) for row in rows))


class WhatIsNotKnown(WhereTest):
    def test_foreign_process_ids(self):
        device, _ = self.run_and_report("host_endings", "return", SIMCUDA_OTHERS_MB="100", SIMCUDA_NVML_PROCESSES="foreign")
        breakdown = device["breakdown"]["at_end"]
        self.assertIsNone(breakdown["process_bytes"])
        self.assertIsNone(breakdown["unexplained_bytes"])
        self.assertIn("container", breakdown["why_unknown"])
        self.assertEqual(breakdown["sample"]["other_process_count"], 2)

    def test_processes_without_sizes(self):
        device, _ = self.run_and_report("host_endings", "return", SIMCUDA_NVML_PROCESSES="unknown")
        self.assertIn("does not state memory by process", device["breakdown"]["at_end"]["why_unknown"])

    def test_no_nvml(self):
        bare = self.folder / "lib"  # the simulated libraries without NVML's
        bare.mkdir()
        for library in (hosts_test.BUILD / "lib" / "simcuda").iterdir():
            if not library.name.startswith("libnvidia-ml"):
                (bare / library.name).symlink_to(library)
        device, _ = self.run_and_report("host_endings", "return", LD_LIBRARY_PATH=str(bare))
        self.assertEqual(self.answer["sampling"]["error"], "libnvidia-ml.so.1 cannot be loaded")
        self.assertIsNone(device["breakdown"]["at_end"]["process_bytes"])

    def test_off(self):
        self.run_and_report("host_endings", "return", GPUMEMSHIM_SAMPLE_MS="0")
        self.assertEqual(self.answer["sampling"]["samples"], 0)


class Limits(WhereTest):
    def test_each_is_told_once(self):
        self.run_and_report("host_endings", "return", SIMCUDA_MEM_MB="1000", GPUMEMSHIM_WARN_AT="60%,700M,99%", GPUMEMSHIM_SAMPLE_MS="1")
        lines = [line for line in self.stderr.splitlines() if "reached" in line]
        self.assertEqual(len(lines), 2, self.stderr)
        self.assertIn("gpumemshim: GPU 0 is 71 % full (712 MiB of 1000 MiB, 712 MiB by this process): reached 700 MiB", lines)
        limits = self.answer["sampling"]["limits_reached"]
        self.assertEqual(sorted(str(limit["limit_percent"]) for limit in limits), ["60", "None"])

    def test_quietly(self):
        self.run_and_report("host_endings", "return", GPUMEMSHIM_WARN_AT="1M", GPUMEMSHIM_QUIET="1")
        self.assertEqual(self.stderr, "")
        self.assertEqual(len(self.answer["sampling"]["limits_reached"]), 1)


if __name__ == "__main__":
    hosts_test.main()

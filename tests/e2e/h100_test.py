# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Traces of a real H100 (tests/e2e/h100), held against what PyTorch said there of itself, and of a second run with expandable segments.

    python tests/e2e/h100_test.py --build build/release [--full]

Recorded with commit 6adb09e6 on an NVIDIA H100 80GB HBM3, driver 580.159.04, torch 2.11.0+cu130, Python 3.12.3; truth.tsv was printed by the
programs there: bytes by torch.cuda's counters (memory_stats of JAX for 25_jax_mlp), "-" where the second run was not made.
"""

import argparse
import csv
import json
import lzma
import pathlib
import subprocess
import tempfile
import unittest

import truth

TRACES = pathlib.Path(__file__).resolve().parent / "h100"
EVERYDAY_REPLAYS = ("17_lstm_gru", "21_cudagraph_train")
SETUP, FULL = None, False


def rows():
    with open(TRACES / "truth.tsv", encoding="utf-8") as file:
        return {row["program"]: row for row in csv.DictReader(file, delimiter="\t")}


class H100Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="gpumemshim-h100-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.truth = rows()

    def trace(self, program):
        path = pathlib.Path(self.folder.name) / f"{program}.gmtrace"
        if not path.exists():
            path.write_bytes(lzma.decompress((TRACES / f"{program}.gmtrace.xz").read_bytes()))
        return path

    def test_each_trace_has_its_truth(self):
        self.assertEqual({path.name.removesuffix(".gmtrace.xz") for path in TRACES.glob("*.xz")}, set(self.truth))

    def test_peaks_and_ends(self):
        for program, row in self.truth.items():
            with self.subTest(program=program):
                said = truth.report(SETUP, self.trace(program))
                self.assertEqual((said["losses"]["total"], said["complete"]), (0, True))
                device = said["devices"][0]
                if program == "25_jax_mlp":  # its pool is CUDA memory; JAX counts what it gives out of it, and 56 MiB were there before
                    self.assertGreaterEqual(device["peak"]["other_bytes"], int(row["peak_reserved"]))
                    continue
                got = {"peak_allocated": device["peak"]["allocated_bytes"], "peak_reserved": device["peak"]["reserved_bytes"],
                       "allocated_at_end": device["end"]["allocated_bytes"], "reserved_at_end": device["end"]["reserved_bytes"]}
                self.assertEqual(got, {key: int(row[key]) for key in got})

    def test_expandable_segments_replayed_are_those_of_the_card(self):
        for program in self.truth if FULL else EVERYDAY_REPLAYS:
            row = self.truth[program]
            if row["expandable_peak_reserved"] == "-":
                continue
            with self.subTest(program=program):
                command = [SETUP.gpumem, "replay", "--json", "--torch", SETUP.python, "--conf", "expandable_segments:True", self.trace(program)]
                environment = truth.environment_of_plans(SETUP, GPUMEMSHIM_SIMCUDA=str(truth.ROOT / "simcuda"))
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
                what_if = json.loads(done.stdout)["what_ifs"][0]["devices"][0]
                self.assertEqual((what_if["peak_reserved_bytes"], what_if["peak_allocated_bytes"]), (int(row["expandable_peak_reserved"]), int(row["expandable_peak_allocated"])))


def main():
    global SETUP, FULL
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    unittest.main(argv=rest, defaultTest="H100Test")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Process trees of real PyTorch: each process that used CUDA has one trace that says so, the others leave nothing, parents and children are
linked, and the job's output and exit code are those without the recorder.

    python tests/e2e/trees_test.py --build build/release [--full]
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import truth

SETUP = None
FULL = "--full" in sys.argv  # before the classes below are made
PROGRAM = truth.PROGRAMS / "trees.py"
FIELDS = ("pid", "parent", "role", "cuda")


def only_in_full(test):
    return unittest.skipUnless(FULL, "part of --full")(test)


class TreeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-trees-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.rings = self.folder / "rings"
        self.rings.mkdir()

    def run_job(self, command, recorded):
        """stdout, exit code, and who took part."""
        log = self.folder / f"log.{recorded:d}.tsv"
        environment = truth.environment_of(truth.Case("none", devices=2), SETUP)
        environment.update(TREES_LOG=str(log), OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        prefix = []
        if recorded:
            environment["GPUMEMSHIM_RING_DIRECTORY"] = str(self.rings)
            prefix = [SETUP.gpumem, "run", "--"]
        done = subprocess.run(
            [*prefix, *command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SETUP.timeout_s, stdin=subprocess.DEVNULL
        )
        with open(log, encoding="ascii") as file:
            rows = list(csv.DictReader(file, FIELDS, delimiter="\t"))
        if recorded:
            self.errors = done.stderr
        return done.stdout, done.returncode, rows

    def check_job(self, *words, launcher=()):
        """Runs the job bare and recorded. Returns role -> the process of the folder's report."""
        command = [*SETUP.command(launcher[0]), *launcher[1:], str(PROGRAM)] if launcher else SETUP.command(PROGRAM)
        bare = self.run_job([*command, *words], recorded=False)
        output, code, rows = self.run_job([*command, *words], recorded=True)
        self.assertEqual((output, code), bare[:2], self.errors)
        self.assertEqual(code, 0, self.errors)
        self.assertEqual(sorted((row["role"], row["cuda"]) for row in rows), sorted((row["role"], row["cuda"]) for row in bare[2]))
        return self.check_traces(rows)

    def check_traces(self, rows):
        traces = sorted(self.folder.glob("*.gmtrace"))
        answer = json.loads(truth.run([SETUP.gpumem, "report", "--json", str(self.folder)], SETUP))
        processes = answer["processes"] if "processes" in answer else [self.alone(answer)]
        self.assertEqual(len(processes), len(traces))
        self.assertEqual(sorted(process["pid"] for process in processes), sorted(int(row["pid"]) for row in rows if row["cuda"] == "1"), traces)
        self.assertEqual(list(self.rings.iterdir()), [])
        by_pid = {process["pid"]: process for process in processes}
        for process in processes:
            self.check_one(process)
        return [(row["role"], by_pid[int(row["pid"])], row) for row in rows if row["cuda"] == "1"]

    def alone(self, answer):
        """A folder with one trace is answered by that trace's report."""
        device = answer["devices"][0]
        return {
            **{name: answer[name] for name in ("file", "program", "complete")},
            **{name: answer["process"][name] for name in ("pid", "rank")},
            "parent_file": None,
            "peak_bytes": device["peak"]["total_bytes"],
            "lost_events": answer["losses"]["total"],
        }

    def check_one(self, process):
        trace = self.folder / pathlib.Path(process["file"]).name
        self.assertTrue(process["complete"], process)
        self.assertEqual((process["lost_events"], process["program"]), (0, "trees"))
        answer = truth.report(SETUP, trace)
        self.assertEqual(answer["losses"]["unseen"], [])
        self.assertGreater(answer["events"]["torch"], 20)
        self.assertGreater(process["peak_bytes"], 1 << 20)

    def check_family(self, found, parent_role):
        """Everybody else's trace names the parent's."""
        (parent,) = (process for role, process, _ in found if role == parent_role)
        for role, process, row in found:
            expected = None if role == parent_role else pathlib.Path(parent["file"]).name
            self.assertEqual(process["parent_file"] and pathlib.Path(process["parent_file"]).name, expected, role)
        text = truth.run([SETUP.gpumem, "report", str(self.folder)], SETUP)
        for _, process, _ in found:
            self.assertIn(str(process["pid"]), text)


class DataLoaders(TreeTest):
    def check_loader(self, method):
        found = self.check_job("loader", method)
        self.assertEqual([role for role, _, _ in found], ["trainer"])

    def test_fork(self):
        self.check_loader("fork")

    @only_in_full
    def test_spawn(self):
        self.check_loader("spawn")

    @only_in_full
    def test_forkserver(self):
        self.check_loader("forkserver")


class Trees(TreeTest):
    def test_a_fork_in_the_middle_of_training(self):
        self.assertEqual([role for role, _, _ in self.check_job("forks")], ["trainer"])

    def test_torchrun(self):
        found = self.check_job("ranked", launcher=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"))
        self.assertEqual(sorted(role for role, _, _ in found), ["rank 0", "rank 1"])
        for role, process, _ in found:
            rank = int(role[-1])
            self.assertEqual(process["rank"], rank)
            self.assertRegex(pathlib.Path(process["file"]).name, rf"^gpumemshim\.trees\.[\w-]+\.[\w-]+\.{process['pid']}\.r{rank}\.gmtrace$")
            answer = truth.report(SETUP, self.folder / pathlib.Path(process["file"]).name)
            self.assertEqual(answer["process"]["world_size"], 2)
            self.assertEqual([device["device"] for device in answer["devices"]], [rank])

    @only_in_full
    def test_spawned_by_a_parent_without_cuda(self):
        found = self.check_job("spawn", "cpu")
        self.assertEqual(sorted(role for role, _, _ in found), ["worker 0", "worker 1"])
        self.assertEqual({process["parent_file"] for _, process, _ in found}, {None})

    @only_in_full
    def test_spawned_by_a_parent_with_cuda(self):
        found = self.check_job("spawn", "cuda")
        self.assertEqual(sorted(role for role, _, _ in found), ["parent", "worker 0", "worker 1"])
        self.check_family(found, "parent")

    @only_in_full
    def test_children_that_are_programs(self):
        found = self.check_job("starts")
        self.assertEqual(sorted(role for role, _, _ in found), ["leaf", "leaf", "trainer"])
        self.check_family(found, "trainer")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="all ways to make processes, not only the most common ones")
    global SETUP
    SETUP, _, rest = truth.setup_of_tests(parser)
    unittest.main(argv=rest)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumem plan` of programs of many ranks: one process that poses as a rank needs to the byte what that rank needs among the others, and each has sizes of its own.

    python tests/e2e/ranks_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
RANKED = truth.PROGRAMS / "ranked.py"
PROGRAM = truth.ROOT / "examples" / "train_parallel.py"


class Ranks(unittest.TestCase):
    more = {}  # environment

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumem-ranks-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()

    def environment(self):
        environment = truth.environment_of(truth.Case("none"), SETUP)
        for name in [name for name in environment if name.startswith("SIMCUDA_") and name != "SIMCUDA_LIB"]:
            del environment[name]
        return {**environment, **self.more, "TMPDIR": str(self.folder / "tmp"), "OMP_NUM_THREADS": "1", "SAID": str(self.folder / "said")}

    def run_plan(self, options, program, arguments, expected=0):
        command = [SETUP.gpumem, "plan", *options, "--", SETUP.python, str(program), *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=SETUP.timeout_s, check=False)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        self.assertEqual(list((self.folder / "tmp").glob("gpumem*")), [], "nothing is left in the folder for temporary files")
        return done.stdout

    def plan(self, options, *arguments, program=PROGRAM):
        plan = json.loads(self.run_plan(["--json", "--no-what-if", *options], program, arguments))
        return plan, {process["rank"]: process for process in plan["processes"]}

    def report(self, command, process):
        return json.loads(truth.run([SETUP.gpumem, command, "--json", str(self.folder / process["trace"])], SETUP))


class PosingIsBeing(Ranks):
    """What one process needs that poses as a rank is what that rank needs among the others."""

    def compare(self, world, ranks, *arguments):
        plan, real = self.plan(["--nproc-per-node", str(world)], *arguments)
        self.assertEqual(set(real), set(range(world)))
        self.assertEqual({process["steps"] for process in real.values()}, {plan["processes"][0]["steps"]}, "all end at the same step")
        for rank in ranks:
            posed, _ = self.plan(["--rank", str(rank), "--world-size", str(world)], *arguments)
            self.assertEqual(posed["posing"], {"rank": rank, "world_size": world})
            self.assertEqual(posed["peak"]["allocated_bytes"], real[rank]["peak"]["allocated_bytes"], rank)
            self.assertEqual(posed["peak"]["device"], rank)
        return plan, real

    def test_fsdp_of_eight(self):
        # 4001 words do not divide by 8: the last rank's share is smaller.
        plan, real = self.compare(8, [0, 7], "--parallel", "fsdp", "--width", "256", "--layers", "2", "--vocabulary", "4001")
        self.assertLess(real[7]["peak"]["allocated_bytes"], real[0]["peak"]["allocated_bytes"])
        most = max(process["peak"]["process_bytes"] for process in real.values())
        self.assertEqual((plan["peak"]["process_bytes"], plan["processes"][0]["rank"] in real), (most, True))
        self.assertEqual(plan["skew_bytes"], most - min(process["peak"]["process_bytes"] for process in real.values()))

    def test_ddp_of_two(self):
        self.compare(2, [1], "--parallel", "ddp", "--width", "256", "--layers", "2")

    def test_tensor_parallel_of_two(self):
        self.compare(2, [0], "--parallel", "tp", "--width", "256", "--layers", "2")

    def test_hsdp_of_four(self):
        self.compare(4, [3], "--parallel", "hsdp", "--width", "256", "--layers", "2")


class WhatRanksHear(Ranks):
    """ranked.py fails in the rank that hears something else than it should."""

    def check(self, options, *arguments):
        plan, _ = self.plan(options, *arguments, program=RANKED)
        self.assertEqual((plan["verdict"], plan["end"]), ("fits", "ended"))
        return plan

    def test_of_each_other(self):
        self.assertEqual(len(self.check(["--nproc-per-node", "4"])["processes"]), 4)

    def test_with_communicators_that_are_split(self):
        self.check(["--nproc-per-node", "4"], "--eager")

    def test_with_gloo_beside(self):
        self.check(["--nproc-per-node", "4"], "--eager", "--backend", "cpu:gloo,cuda:nccl")

    def test_of_nobody(self):
        for options in ([], ["--eager"], ["--backend", "cpu:gloo,cuda:nccl"]):
            with self.subTest(options=options):
                plan = self.check(["--rank", "13", "--world-size", "16"], "--alone", *options)
                self.assertEqual((plan["processes"][0]["rank"], plan["peak"]["device"]), (13, 5))

    def test_a_sitecustomize_of_the_users_own(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "sitecustomize.py").write_text("import os\nopen(os.environ['SAID'], 'w').write('mine too')\n")
        self.more = {"PYTHONPATH": str(self.folder / "mine")}
        self.check(["--world-size", "8"], "--alone")
        self.assertEqual((self.folder / "said").read_text(), "mine too")


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim plan` of programs of many ranks: one process that simulates a rank needs to the byte what that rank needs among the others, and each has sizes of its own.

    python tests/e2e/ranks_test.py --build build/release [--full]
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
# Else all ranks run once more where the printed loss is another, and with bounds of workspaces: test_ddp_of_two does both.
ONCE = ("--values", "none", "--workspaces", "none")
RARER = ("test_of_nobody_by_other_ways", "test_fsdp_of_eight", "test_hsdp_of_four", "test_with_gloo_beside", "test_the_last_of_eight_with_fsdp",
         "test_with_communicators_that_are_split", "test_of_nobody_with_a_sitecustomize_of_the_users_own")  # a start of PyTorch for each rank


class Ranks(unittest.TestCase):
    more = {}  # environment

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-ranks-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()

    def environment(self):
        return truth.environment_of_plans(SETUP, **{**self.more, "TMPDIR": str(self.folder / "tmp"), "OMP_NUM_THREADS": "1", "REPORTED": str(self.folder / "reported")})

    def run_plan(self, options, program, arguments, expected=0):
        command = [SETUP.gpumem, "plan", *options, "--", SETUP.python, str(program), *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=SETUP.timeout_s, check=False)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        self.assertEqual(list((self.folder / "tmp").glob("gpumemshim*")), [], "nothing is left in the folder for temporary files")
        return done.stdout

    def plan(self, options, *arguments, program=PROGRAM):
        plan = json.loads(self.run_plan(["--json", "--no-what-if", *options], program, arguments))
        return plan, {process["rank"]: process for process in plan["processes"]}

    def report(self, command, process):
        return json.loads(truth.run([SETUP.gpumem, command, "--json", str(self.folder / process["trace"])], SETUP))


WIDTH, LAYERS, WORDS = 256, 2, 4001
SHAPE = ["--width", "256", "--inner", "768", "--layers", "2", "--vocabulary", "4001", "--heads", "4", "--batch-size", "1", "--seq-len", "64"]


def shapes():
    shapes = {"embedding.weight": (WORDS, WIDTH), "head.weight": (WORDS, WIDTH), "norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        block = {f"attention.{name}": (WIDTH, WIDTH) for name in ("query", "key", "value", "out")}
        block.update({"feed_forward.gate": (3 * WIDTH, WIDTH), "feed_forward.up": (3 * WIDTH, WIDTH), "feed_forward.down": (WIDTH, 3 * WIDTH)})
        block.update(norm1=(WIDTH,), norm2=(WIDTH,))
        shapes.update({f"blocks.{layer}.{name}.weight": shape for name, shape in block.items()})
    return shapes


def elements(shape, rank=0, ranks=1):
    """FSDP2 gives each rank as many rows as the first has, while there are any."""
    rows = -(-shape[0] // ranks)
    return min(rows, max(0, shape[0] - rank * rows)) * (shape[1] if len(shape) > 1 else 1)


class SimulatedRanks(Ranks):
    """What one process needs that simulates a rank is what that rank needs among the others, and what can be computed by hand."""

    def compare(self, world, ranks, *arguments, options=()):
        """(the plan of all ranks, its processes, {rank: (the plan of that rank alone, its processes)})."""
        plan, real = self.plan(["--nproc-per-node", str(world), *options], *arguments)
        self.assertEqual(set(real), set(range(world)))
        self.assertEqual({process["steps"] for process in real.values()}, {plan["processes"][0]["steps"]}, "all end at the same step")
        alone = {}
        for rank in ranks:
            simulated, processes = alone[rank] = self.plan(["--rank", str(rank), "--world-size", str(world), *options], *arguments)
            self.assertEqual(simulated["simulated_rank"], {"rank": rank, "world_size": world})
            self.assertEqual(simulated["peak"]["allocated_bytes"], real[rank]["peak"]["allocated_bytes"], rank)
            self.assertEqual(simulated["peak"]["device"], rank)
        return plan, real, alone

    def communication(self, plan):
        return [(row["fqn"], row["bytes"], row["count"]) for row in plan["stacks"] if row["category"] == "communication"]

    def compare_fsdp(self, world, options=()):
        # 4001 words do not divide by 2, 4 or 8: the last rank's share is smaller.
        plan, real, alone = self.compare(world, [0, world - 1], "--parallel", "fsdp", *SHAPE, options=options)
        self.assertLess(real[world - 1]["peak"]["allocated_bytes"], real[0]["peak"]["allocated_bytes"])
        most = max(process["peak"]["process_bytes"] for process in real.values())
        self.assertEqual((plan["peak"]["process_bytes"], plan["processes"][0]["rank"] in real), (most, True))
        self.assertEqual(plan["skew_bytes"], most - min(process["peak"]["process_bytes"] for process in real.values()))
        for rank, (simulated, processes) in alone.items():
            self.check_shares(processes, rank, world)

    def check_shares(self, processes, rank, world):
        model = self.report("model", processes[rank])
        found = {each["name"]: (each["elements"], each["bytes"], each["gradient_bytes"], each["optimizer_state_bytes"]) for each in model["parameters"]}
        expected = {name: elements(shape, rank, world) for name, shape in shapes().items()}
        # fp32; two moments, and a count of steps on the host.
        self.assertEqual(found, {name: (count, 4 * count, 4 * count, 8 * count + 4) for name, count in expected.items()})

    def test_the_last_of_eight_with_fsdp(self):
        plan, processes = self.plan(["--rank", "7", "--world-size", "8", *ONCE], "--parallel", "fsdp", *SHAPE)
        self.check_shares(processes, 7, 8)
        block = sum(elements(shape) for name, shape in shapes().items() if name.startswith("blocks.0."))
        # In the first block's backward pass: its parameters gathered in bf16, and the gradients of the one before in fp32 on their way to their ranks.
        self.assertIn(("blocks.0", 2 * block, 9), self.communication(plan))
        self.assertIn(("blocks.1", 4 * block, 1), self.communication(plan))

    def test_fsdp_of_two(self):
        self.compare_fsdp(2, options=ONCE)

    def test_fsdp_of_eight(self):
        self.compare_fsdp(8)

    def test_ddp_of_two(self):
        _, _, alone = self.compare(2, [1], "--parallel", "ddp", *SHAPE)
        whole = sum(4 * elements(shape) for shape in shapes().values())
        plan, _ = alone[1]
        self.assertEqual(sum(size for _, size, _ in self.communication(plan)), whole, "the buckets hold every gradient once")
        details = {row["category"]: row["tensor_bytes"] for row in plan["category_details"]}
        self.assertEqual((details["parameter"], details["gradient"]), (whole, whole))

    def test_tensor_parallel_of_two(self):
        _, _, alone = self.compare(2, [0], "--parallel", "tp", *SHAPE, options=ONCE)
        found = {each["name"]: each["elements"] for each in self.report("model", alone[0][1][0])["parameters"]}
        whole = ("norm1.weight", "norm2.weight", "norm.weight")
        expected = {name: elements(shape) // (1 if name.endswith(whole) else 2) for name, shape in shapes().items()}
        # Embedding and head are split by words: the first rank has the odd one.
        expected.update({name: 2001 * WIDTH for name in ("embedding.weight", "head.weight")})
        self.assertEqual(found, expected)

    def test_hsdp_of_four(self):
        self.compare(4, [3], "--parallel", "hsdp", "--width", "256", "--layers", "2")


class WhatRanksHear(Ranks):
    """ranked.py fails in the rank that hears something else than it should."""

    def check(self, options, *arguments):
        plan, _ = self.plan(options, *arguments, program=RANKED)
        self.assertEqual((plan["verdict"], plan["end"]), ("fits", "ended"))
        return plan

    def test_of_each_other(self):
        self.assertEqual(len(self.check(["--nproc-per-node", "2"])["processes"]), 2)

    def test_with_communicators_that_are_split(self):
        self.check(["--nproc-per-node", "4"], "--eager")

    def test_with_gloo_beside(self):
        self.check(["--nproc-per-node", "4"], "--eager", "--backend", "cpu:gloo,cuda:nccl")

    def check_alone(self, *options):
        plan = self.check(["--rank", "13", "--world-size", "16"], "--alone", *options)
        self.assertEqual((plan["processes"][0]["rank"], plan["peak"]["device"]), (13, 5))

    def test_of_nobody(self):
        self.check_alone("--eager", "--backend", "cpu:gloo,cuda:nccl")

    def test_of_nobody_by_other_ways(self):
        for options in (["--eager"], ["--backend", "cpu:gloo,cuda:nccl"]):
            with self.subTest(options=options):
                self.check_alone(*options)

    def test_of_nobody_with_a_sitecustomize_of_the_users_own(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "sitecustomize.py").write_text("import os\nopen(os.environ['REPORTED'], 'w').write('mine too')\n")
        self.more = {"PYTHONPATH": str(self.folder / "mine")}
        self.check_alone()
        self.assertEqual((self.folder / "reported").read_text(), "mine too")


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

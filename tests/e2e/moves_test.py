# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Tensors that go elsewhere keep their names: weights that are moved, layer by layer or as a whole, tensors outside of PyTorch's caching allocator, states of a step that failed.

    python tests/e2e/moves_test.py --build build/release
"""

import argparse
import csv
import io
import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
MOVED = """import torch
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(6)])
with torch.no_grad():
    for i in range(6):
        net.to("cuda"); net(torch.zeros(8, 1024, device="cuda")); net.to("cpu")
"""
STREAMED = """import torch
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(6)])
for layer in net:
    layer.register_forward_pre_hook(lambda m, a: m.to("cuda") and None)
    layer.register_forward_hook(lambda m, a, o: m.to("cpu") and None)
with torch.no_grad():
    for i in range(6): net(torch.zeros(8, 1024, device="cuda"))
"""
SWAPPED = """import torch
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(6)]).cuda()
host = [p.data.cpu() for p in net.parameters()]
with torch.no_grad(): net(torch.zeros(8, 1024, device="cuda"))  # before it, nobody knows what its weights are
for i in range(6):
    for p in net.parameters(): p.data = torch.empty(0, device="cuda")
    for p, h in zip(net.parameters(), host): p.data = h.cuda()
    with torch.no_grad(): net(torch.zeros(8, 1024, device="cuda"))
"""
FAILED = """import torch
net = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048, bias=False) for _ in range(24)]).cuda()
opt = torch.optim.AdamW(net.parameters())
net(torch.randn(64, 2048, device="cuda")).sum().backward()
try: opt.step()
except torch.OutOfMemoryError: pass
"""
ADAM = """import torch
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(4)]).cuda()
opt = torch.optim.AdamW(net.parameters())
for _ in range(4):
    net(torch.zeros(64, 1024, device="cuda")).sum().backward(); opt.step(); opt.zero_grad()
"""
SHORT = """import torch
kept = [torch.zeros(4_000_000, device="cuda") for _ in range(3)]
"""
WEIGHT = 1024 * 1024 * 4


class MovesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-moves-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def record(self, name, text, **more):
        program, trace = self.folder / f"{name}.py", self.folder / f"{name}.gmtrace"
        program.write_text(text)
        truth.run(SETUP.recording(trace, *SETUP.command(program)), SETUP, {**truth.environment_of(truth.Case("none"), SETUP), **more})
        return str(trace)

    def categories(self, trace, where):
        """{category: [blocks, bytes]}"""
        query = f"select category, count(*) n, sum(size) b from blocks where {where} group by 1"
        said = truth.run([SETUP.gpumem, "sql", trace, "--format", "csv", query], SETUP, truth.environment_of_plans(SETUP))
        return {row["category"]: [int(row["n"]), int(row["b"])] for row in csv.DictReader(io.StringIO(said))}

    def test_weights_that_move(self):
        for name, text in (("moved", MOVED), ("streamed", STREAMED), ("swapped", SWAPPED)):
            with self.subTest(name):
                trace = self.record(name, text)
                rounds = 7 if name == "swapped" else 6  # .cuda() first
                self.assertEqual(self.categories(trace, f"size = {WEIGHT}"), {"parameter": [6 * rounds, 6 * rounds * WEIGHT]})

    def test_states_of_a_step_that_ran_out_of_memory(self):
        trace = self.record("failed", FAILED, SIMCUDA_MEM_MB="2048")
        blocks = self.categories(trace, f"size = {4 * WEIGHT} and kept")
        self.assertEqual(set(blocks), {"parameter", "gradient", "optimizer_state"}, blocks)
        self.assertEqual(blocks["parameter"][0], 24)
        self.assertGreater(blocks["optimizer_state"][0], 10)

    def test_tensors_outside_of_the_caching_allocator(self):
        trace = self.record("adam", ADAM, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        at_peak = json.loads(truth.run([SETUP.gpumem, "at", "peak", "--json", trace], SETUP, truth.environment_of_plans(SETUP)))["categories"]
        self.assertEqual((at_peak["parameter"], at_peak["optimizer_state"], at_peak["gradient"]), (4 * WEIGHT, 8 * WEIGHT, 4 * WEIGHT))
        self.assertEqual(at_peak.get("library", 0), 0)

    def test_the_end_of_a_short_program_is_seen(self):
        for _ in range(5):
            said = json.loads(truth.run([SETUP.gpumem, "report", "--json", str(self.record("short", SHORT))], SETUP, truth.environment_of_plans(SETUP)))
            (self.folder / "short.gmtrace").unlink()
            self.assertTrue(said["ground"]["end"])
            self.assertEqual(said["devices"][0]["end"]["allocated_bytes"], 3 * (16 << 20))


if __name__ == "__main__":
    SETUP, _, (program, *rest) = truth.setup_of_tests(argparse.ArgumentParser())
    unittest.main(argv=[program, *rest])

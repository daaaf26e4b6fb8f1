# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Free memory that one stream or one private pool keeps from all others: who causes it, and what mending it saves, which a real run of the mended program confirms.

    python tests/e2e/streams_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
RARER = ("test_graphs_of_one_pool_captured_from_small_to_large", "test_what_a_replay_cannot_follow_has_no_number")
END = "\nprint(torch.cuda.max_memory_reserved())\n"
NEW_EACH_TIME = """import torch
def send(n):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.empty(n << 20, dtype=torch.uint8, device="cuda")
for step in range(45):
    x = torch.zeros(256, device="cuda")
    send(24)
"""
ONE_STREAM = NEW_EACH_TIME.replace("def send", "stream = torch.cuda.Stream()\ndef send").replace("    stream = torch.cuda.Stream()\n", "")
IN_TURNS = """import torch
streams = [torch.cuda.Stream() for _ in range(4)]
for step in range(45):
    with torch.cuda.stream(streams[step % 4]):
        torch.empty(24 << 20, dtype=torch.uint8, device="cuda")
"""
POOL_EACH = """import torch
net = torch.nn.Linear(2048, 8192).cuda().eval()
x = torch.zeros(512, 2048, device="cuda")
with torch.no_grad():
    net(x)
    pool = POOL
    kept = []
    for _ in range(12):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            y = net(x).sum()
        kept.append((graph, y))
"""
SMALL_FIRST = """import torch
net = torch.nn.Sequential(torch.nn.Linear(512, 4096), torch.nn.Linear(4096, 32768)).cuda().eval()
pool, kept = torch.cuda.graph_pool_handle(), []
with torch.no_grad():
    for batch in BATCHES:
        static = torch.zeros(batch, 512, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            y = net(static.repeat_interleave(16, 0)).argmax(-1)
        kept.append((graph, static, y))
    for graph, _, _ in kept:
        graph.replay()
"""
RECORD_STREAM = """import torch
side = torch.cuda.Stream()
for step in range(12):
    with torch.cuda.stream(side):
        x = torch.empty((24 + 8 * step) << 20, dtype=torch.uint8, device="cuda")
    x.record_stream(torch.cuda.current_stream())
    del x
"""
MEM_POOL = """import torch
pool = torch.cuda.MemPool()
for step in range(12):
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty((24 + 8 * step) << 20, dtype=torch.uint8, device="cuda")
    del x
"""


class StreamsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-streams-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def record(self, name, text):
        """(trace, reserved at most as PyTorch says)"""
        program, trace = self.folder / f"{name}.py", self.folder / f"{name}.gmtrace"
        program.write_text(text + END)
        environment = truth.environment_of(truth.Case("none"), SETUP)
        said = truth.run(SETUP.recording(trace, *SETUP.command(program)), SETUP, environment)
        return trace, int(said.split()[-1])

    def ask(self, *arguments):
        environment = truth.environment_of_plans(SETUP, GPUMEMSHIM_SIMCUDA=str(truth.ROOT / "simcuda"), GPUMEMSHIM_INTERPRETER=SETUP.python)
        return truth.run([SETUP.gpumem, *arguments], SETUP, environment)

    def what_if(self, trace):
        return json.loads(self.ask("fragmentation", "--json", trace))["what_if"]

    def test_a_new_stream_each_time(self):
        trace, _ = self.record("new", NEW_EACH_TIME)
        mended, needed = self.record("one", ONE_STREAM)
        (change,) = self.what_if(trace)["changes"]
        self.assertEqual((change["change"], change["peak_reserved_bytes"]), ("one_stream", needed))
        said = " ".join(self.ask("report", trace).split())
        self.assertIn("new.py:3 send takes a new one each time (45 times)", said)
        self.assertEqual(self.what_if(mended), None)
        compared = json.loads(self.ask("diff", "--json", mended, trace))
        self.assertEqual(compared["subject"], "reserved")
        self.assertIn("new.py:3 send", compared["headline"])

    def test_streams_in_turns_are_no_fault(self):
        trace, _ = self.record("turns", IN_TURNS)
        device = json.loads(self.ask("fragmentation", "--json", "--no-replay", trace))["devices"][0]["fragmentation"]
        self.assertEqual(device["stream_chains"], [])
        self.assertEqual(len(device["caches_at_peak"]), 3)  # the fourth segment is nobody's yet when it makes the peak

    def test_a_private_pool_for_each_graph(self):
        trace, _ = self.record("pools", POOL_EACH.replace("POOL", "None"))
        _, needed = self.record("pool", POOL_EACH.replace("POOL", "torch.cuda.graph_pool_handle()"))
        changes = {change["change"]: change["peak_reserved_bytes"] for change in self.what_if(trace)["changes"]}
        self.assertEqual(changes, {"one_pool": needed})
        self.assertIn("12 private pools of graphs", " ".join(self.ask("report", trace).split()))

    def test_graphs_of_one_pool_captured_from_small_to_large(self):
        batches = (1, 2, 4, 8, 16, 24, 32, 48, 64)
        trace, _ = self.record("small", SMALL_FIRST.replace("BATCHES", str(batches)))
        _, needed = self.record("large", SMALL_FIRST.replace("BATCHES", str(batches[::-1])))
        changes = {change["change"]: change["peak_reserved_bytes"] for change in self.what_if(trace)["changes"]}
        self.assertEqual(changes, {"largest_first": needed})
        self.assertIn("with the largest one first", " ".join(self.ask("explain", trace).split()))

    def test_what_a_replay_cannot_follow_has_no_number(self):
        for name, text, why in (("record", RECORD_STREAM, "Tensor.record_stream was called 12 times"), ("mem_pool", MEM_POOL, "1 MemPool was made")):
            with self.subTest(name):
                trace, _ = self.record(name, text)
                self.assertIn(why, self.what_if(trace)["not_followed"])
                self.assertNotIn("(replayed)", self.ask("report", trace))
                done = subprocess.run([SETUP.gpumem, "replay", "--check", "--json", "--torch", SETUP.python, trace], capture_output=True, text=True, timeout=600)
                self.assertEqual((done.returncode, json.loads(done.stdout)["exact"]), (1, False))


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim explain` finds what was planted in small programs, with the bytes that the program itself can tell, and finds nothing of the kind where nothing was planted.

    python tests/e2e/explain_test.py --build build/release
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import truth
from explain_pairs import PAIRS

SETUP = None

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
MIB = 1 << 20
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(rows=64, clear=True):
    if clear:
        optimizer.zero_grad(set_to_none=True)
    loss = model(torch.randn(rows, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    return loss
"""

# Name -> what follows HEAD.
PROGRAMS = {
    "plain": "for i in range(8):\n    step()\n",
    "spike": "for i in range(8):\n    step(4096 if i == 4 else 64)\n",
    "late_zero_grad": """
for i in range(8):
    output = model(torch.randn(16384, 1024, device="cuda"))  # the last step's gradients are alive
    optimizer.zero_grad(set_to_none=True)
    del output
    step(clear=False)
""",
    "carried": """
outputs = None
for i in range(8):
    with torch.no_grad():
        new = model(torch.randn(8192, 1024, device="cuda"))
    outputs = new
    step()
""",
    "leak": "kept = []\nfor i in range(20):\n    step()\n    kept.append(torch.empty(3 * MIB, dtype=torch.uint8, device='cuda'))\n",
    # Far too little for a verdict, and the only thing that grows.
    "small_leak": "kept = []\nfor i in range(20):\n    step()\n    kept.append(torch.empty(512, dtype=torch.uint8, device='cuda'))\n",
    # No block fits into what the smaller one before left: with one segment that grows, the largest of them is all.
    "fragmenting": "for size in range(30, 90, 8):\n    block = torch.empty(size * MIB, dtype=torch.uint8, device='cuda')\n    del block\n",
    "adam": "optimizer = torch.optim.Adam(model.parameters())\nfor i in range(5):\n    step()\n",
    "frozen": """
base = nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(8)]).cuda().requires_grad_(False)
for i in range(5):
    base(torch.randn(8, 2048, device="cuda"))
    step()
""",
    "out_of_memory": """
torch.cuda.set_per_process_memory_fraction(0.01)
try:
    torch.empty(torch.cuda.get_device_properties(0).total_memory // 2, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    pass
""",
    "two_summits": """
def high():
    held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
def nearly():
    held = torch.empty(60 << 20, dtype=torch.uint8, device="cuda")
high()
nearly()
""",
    "nothing": "pass\n",
    # Sound: what a step keeps for the next one is used there.
    "averaged": "import copy\naverage = copy.deepcopy(model)\nfor i in range(8):\n    step(4096)\n    with torch.no_grad():\n        [a.lerp_(p, 0.1) for a, p in zip(average.parameters(), model.parameters())]\n",
    "prefetching": """
batch = torch.randn(32768, 1024).to("cuda")
for i in range(8):
    following = torch.randn(32768, 1024).to("cuda")
    optimizer.zero_grad(set_to_none=True)
    model(batch).square().mean().backward()
    optimizer.step()
    batch = following
""",
    "accumulating": """
for i in range(8):
    for part in range(4):
        model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
""",
    # All of these logits are used, and these keys are needed where they are.
    "all_logits": """
head = nn.Linear(256, 32000, bias=False).cuda()
classes = []
with torch.inference_mode():
    for i in range(4):
        logits = head(torch.randn(2048, 256, device="cuda")).float()
        classes.append(logits.argmax(-1))
        probabilities = head(torch.randn(2048, 256, device="cuda")).float().softmax(-1).mean()
""",
    "cached_keys": """
@torch.inference_mode()
def generate(tokens):
    layers = [nn.Linear(1024, 1024).cuda() for _ in range(3)]
    keys = [None] * 3
    x = torch.randn(512, 1024, device="cuda")
    for i in range(tokens):
        for at, layer in enumerate(layers):
            key = layer(x)
            keys[at] = key if keys[at] is None else torch.cat([keys[at], key])
            x = x + (x @ keys[at].T).softmax(-1) @ keys[at]
generate(20)
""",
    "dead_attempts": """
torch.cuda.set_per_process_memory_fraction((256 << 20) / torch.cuda.get_device_properties(0).total_memory)
errors = []
def attempt(size):
    held = torch.ones(size // 4, device="cuda", requires_grad=True)
    result = held.sigmoid().sigmoid()  # the first of them is in autograd's graph alone
    return torch.cat([result] * 12)
for size in (24 << 20, 16 << 20, 12 << 20):
    try:
        attempt(size)
    except torch.cuda.OutOfMemoryError as error:
        errors.append(error)
""",
}

TOO_LONG = tuple(dict.fromkeys(check for check, _ in PAIRS.values()))


class ExplainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-explain-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        programs = []
        pairs = {f"{name}{end}": f"mended = {mended}\n{text}" for name, (_, text) in PAIRS.items() for end, mended in (("", False), ("_mended", True))}
        for name, text in {**PROGRAMS, **pairs}.items():
            (cls.folder / name).mkdir()
            programs.append(cls.folder / name / "program.py")
            programs[-1].write_text(HEAD + text)
        command = [*SETUP.command(truth.PROGRAMS / "forked.py"), *map(str, programs)]
        truth.run(SETUP.recording(cls.folder / "forked.gmtrace", *command), SETUP, truth.environment_of(truth.Case("none"), SETUP))

    def trace(self, name):
        return self.folder / name / "program.gmtrace"

    def explain(self, name, *arguments, code=0, replays=False):
        arguments = [*arguments, *([] if replays else ["--no-replay"])]
        done = subprocess.run([SETUP.gpumem, "explain", "--json", *arguments, self.trace(name)], env=truth.environment_of_plans(SETUP), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def check(self, name, check_id):
        found = [check for check in self.explain(name)["checks"] if check["id"] == check_id]
        self.assertEqual(len(found), 1, check_id)
        return found[0]

    def test_nothing_planted_nothing_found(self):
        for check_id in ("peak.recurs", "peak.gradients_in_forward", "peak.carried_over", "peak.optimizer_state", "leak.tensors", "leak.graphs", "oom.request", "fragmentation.retries"):
            with self.subTest(check_id):
                self.assertNotEqual(self.check("plain", check_id)["outcome"], "found")

    def test_one_step_alone_sets_the_peak(self):
        check = self.check("spike", "peak.recurs")
        self.assertEqual(check["outcome"], "found")
        self.assertIn("only step 5", check["evidence"])
        peak = truth.report(SETUP, self.trace("spike"))["devices"][0]["peak"]["allocated_bytes"]
        steps = json.loads(subprocess.run([SETUP.gpumem, "steps", "--json", self.trace("spike")], capture_output=True, text=True, check=True).stdout)["steps"]
        others = max(each["peak_bytes"] for each in steps if each["step"] != 5)
        self.assertEqual((check["saving_basis"], check["saving_bytes"]), ("exact", peak - others))

    def test_without_the_largest_line_another_moment_is_the_peak(self):
        check = self.check("two_summits", "peak.largest_line")
        self.assertIn("high, 64 MiB", check["evidence"])
        self.assertEqual((check["outcome"], check["saving_basis"], check["saving_bytes"]), ("found", "at_most", 4 << 20))

    def test_peaks_without_parts_are_those_of_the_blocks(self):
        query = ("SELECT born_event, coalesce(died_event, 1000000000) AS died_event, size, category, line, stage FROM blocks WHERE layer = 'torch' AND device = 0")
        found = []
        for name in ("plain", "adam", "two_summits"):
            done = subprocess.run([SETUP.gpumem, "sql", "--json", self.trace(name), query], capture_output=True, text=True, timeout=120)
            if done.returncode == 3 and "DuckDB" in done.stderr:
                self.skipTest("DuckDB's library is not here (scripts/bootstrap)")
            self.assertEqual(done.returncode, 0, done.stderr)
            blocks = json.loads(done.stdout)["rows"]

            def peak(dropped=lambda block: False):
                changes = [change for block in blocks if not dropped(block) for change in ((block["died_event"], 0, -block["size"]), (block["born_event"], 1, block["size"]))]
                held, most = 0, 0
                for _, _, change in sorted(changes):
                    held += change
                    most = max(most, held)
                return most

            line = self.check(name, "peak.largest_line")
            site = line["evidence"].partition(", ")[0]
            for check, dropped in ((line, lambda block: block["line"] == site), (self.check(name, "peak.activations"), lambda block: block["category"] == "activation")):
                if check["outcome"] == "found":
                    self.assertEqual(check["saving_bytes"], peak() - peak(dropped), check)
            found += [self.check(name, f"peak.{check}")["evidence"] for check in ("largest_line", "activations")]
        self.assertIn("without them the peak would be", " ".join(found))

    def test_gradients_alive_in_the_forward_pass(self):
        check = self.check("late_zero_grad", "peak.gradients_in_forward")
        self.assertEqual(check["outcome"], "found")
        gradients = 4 * (2 * 1024 * 4096 + 4096 + 1024)  # of the model in HEAD; blocks are rounded up
        self.assertAlmostEqual(check["saving_bytes"], gradients, delta=4096)

    def test_what_an_earlier_step_left_behind(self):
        check = self.check("carried", "peak.carried_over")
        self.assertEqual(check["outcome"], "found")
        self.assertEqual(check["saving_bytes"], 8192 * 1024 * 4)
        self.assertIn("program.py", check["evidence"])

    def test_what_is_said_to_be_saved_is_what_the_mended_program_saves(self):
        for name, (check_id, _) in PAIRS.items():
            with self.subTest(name):
                peaks = [truth.report(SETUP, self.trace(of))["devices"][0]["peak"]["allocated_bytes"] for of in (name, f"{name}_mended")]
                check = self.check(name, check_id)
                self.assertEqual((check["outcome"], check["saving_basis"]), ("found", "exact"), check)
                self.assertAlmostEqual(check["saving_bytes"], peaks[0] - peaks[1], delta=(peaks[0] - peaks[1]) / 20)
                self.assertNotEqual(self.check(f"{name}_mended", check_id)["outcome"], "found")

    def test_what_is_needed_does_not_live_too_long(self):
        for name in ("plain", "averaged", "prefetching", "accumulating", "all_logits", "cached_keys"):
            for check_id in TOO_LONG:
                with self.subTest(name, check=check_id):
                    self.assertNotEqual(self.check(name, check_id)["outcome"], "found")

    def test_what_attempts_that_failed_hold(self):
        oom = json.loads(subprocess.run([SETUP.gpumem, "oom", "--json", self.trace("dead_attempts")], capture_output=True, text=True).stdout)
        actions = [action for action in oom["ooms"][-1]["actions"] if "failed attempt" in action["action"]]
        self.assertEqual(len(actions), 1, oom)
        self.assertIn("errors[*].__traceback__ keeps", actions[0]["action"])
        self.assertIn(actions[0]["bytes"] >> 20, (3 * (24 + 16), 3 * (24 + 16 + 12)), "with the last attempt, if its error was kept already")

    def test_a_leak_by_its_rate(self):
        answer = self.explain("leak", "leak")
        self.assertEqual(answer["verdict"], "growing")
        self.assertEqual({check["topic"] for check in answer["checks"]}, {"leak"})
        check = self.check("leak", "leak.tensors")
        self.assertEqual((check["outcome"], check["saving_per_iteration"]), ("found", True))
        self.assertAlmostEqual(check["saving_bytes"], 3 << 20, delta=3 << 14)
        self.assertIn("a step", answer["headline"])

    def test_a_tiny_growth_is_no_headline(self):
        answer = self.explain("small_leak")
        check = next(check for check in answer["checks"] if check["id"] == "leak.tensors")
        self.assertEqual((check["outcome"], check["saving_bytes"]), ("found", 512))
        self.assertNotEqual(answer["verdict"], "growing")
        self.assertNotIn("a step", answer["headline"])
        self.assertNotIn(check["evidence"], answer["headline"])

    def test_what_other_settings_save_is_replayed(self):
        trace = self.trace("fragmenting")
        found = {check["id"]: check for check in self.explain("fragmenting", "fragmentation", replays=True)["checks"]}
        done = subprocess.run([SETUP.gpumem, "replay", "--json", "--conf", "expandable_segments:True", trace], env=truth.environment_of_plans(SETUP), capture_output=True, text=True, timeout=120)
        replay = json.loads(done.stdout)
        reserved = [run["devices"][0]["peak_reserved_bytes"] for run in (replay["replayed"], replay["what_ifs"][0])]
        self.assertGreater(reserved[0] - reserved[1], 200 << 20)
        check = found["fragmentation.settings"]
        self.assertEqual((check["outcome"], check["saving_basis"]), ("found", "replayed"), check)
        self.assertEqual(check["saving_bytes"], reserved[0] - reserved[1])
        self.assertEqual(check["action"], "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")

    def test_without_a_replay_nothing_is_said_of_other_settings(self):
        found = {check["id"]: check for check in self.explain("fragmenting", "fragmentation")["checks"]}
        self.assertEqual(found["fragmentation.settings"]["outcome"], "unknown")
        self.assertNotIn("replayed", {check["saving_basis"] for check in found.values()})

    def test_the_state_of_adam(self):
        check = self.check("adam", "peak.optimizer_state")
        self.assertEqual((check["outcome"], check["saving_basis"]), ("found", "arithmetic"))
        numbers = 2 * 1024 * 4096 + 4096 + 1024
        self.assertAlmostEqual(check["saving_bytes"], 6 * numbers, delta=8192)  # 8 bytes each become 2
        self.assertEqual(self.check("plain", "peak.optimizer_state")["outcome"], "clear")

    def test_frozen_parameters_of_four_bytes(self):
        check = self.check("frozen", "peak.parameters")
        self.assertEqual((check["outcome"], check["saving_bytes"]), ("found", 8 * 2048 * 2048 * 2))

    def test_a_limit_of_the_program_s_own(self):
        answer = self.explain("out_of_memory", "oom")
        found = {check["id"] for check in answer["checks"] if check["outcome"] == "found"}
        self.assertIn("oom.request", found)
        self.assertIn("oom.limit", found)
        self.assertEqual(answer["verdict"], "out_of_memory")

    def test_text_and_json_say_the_same(self):
        text = subprocess.run([SETUP.gpumem, "explain", "--full", "--no-replay", self.trace("leak")], capture_output=True, text=True, check=True).stdout
        flat = " ".join(text.split())
        for check in self.explain("leak")["checks"]:
            self.assertIn(check["question"], flat)
            self.assertIn(check["evidence"], flat)

    def test_every_key_is_documented(self):
        documented = (truth.ROOT / "docs" / "json.md").read_text()
        answer = self.explain("plain")
        self.assertEqual([key for key in {*answer, *answer["checks"][0]} if f"`{key}`" not in documented], [])

    def test_a_forecast_of_the_leak(self):
        done = subprocess.run([SETUP.gpumem, "forecast", "--json", self.trace("leak")], capture_output=True, text=True, timeout=120)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["kind"], answer["steps"]), ("far", 20), "3 MiB a step fill no GPU of this size soon")
        self.assertAlmostEqual(answer["bytes_per_step"], 3 << 20, delta=3 << 14)
        self.assertIn("program.py", answer["cause"])
        documented = (truth.ROOT / "docs" / "json.md").read_text()
        self.assertEqual([key for key in answer if f"`{key}`" not in documented], [])

    def test_a_topic_that_there_is_not(self):
        done = subprocess.run([SETUP.gpumem, "explain", "batteries", self.trace("plain")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("oom, leak, fragmentation or peak", done.stderr)

    def test_a_program_without_steps(self):
        self.assertEqual(self.check("nothing", "peak.recurs")["outcome"], "unknown")


if __name__ == "__main__":
    SETUP, _, (program, *rest) = truth.setup_of_tests(argparse.ArgumentParser())
    unittest.main(argv=[program, *rest])

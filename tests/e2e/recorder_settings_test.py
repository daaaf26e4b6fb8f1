# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the recorder says on stderr and how that is chosen: levels, lines of progress, settings of a program that runs, a limit of PyTorch's memory.

    python tests/e2e/recorder_settings_test.py --build build/release
"""

import json
import re
import subprocess
import time
import unittest

import live_programs
import truth

SETUP = None
LIMITED = """
import torch
kept = []
try:
    while True:
        kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    print(torch.cuda.max_memory_reserved())
"""
GROUPS = """
import torch
first, second = torch.nn.Linear(256, 512).cuda(), torch.nn.Linear(512, 256).cuda()
optimizer = torch.optim.AdamW([{"params": first.parameters(), "lr": 1e-3}, {"params": second.parameters(), "weight_decay": 0.5}], lr=3e-4)
halved = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
for _ in range(4):
    optimizer.zero_grad()
    second(first(torch.randn(8, 256, device="cuda"))).sum().backward()
    optimizer.step()
    halved.step()
"""


class RecorderSettings(live_programs.LiveProgramTest):
    def setUp(self):
        self.setup = SETUP
        super().setUp()

    def ctl(self, *words, fails=False):
        done = subprocess.run([SETUP.gpumem, "ctl", *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1 if fails else 0, done.stderr)
        return done.stderr if fails else done.stdout

    def record(self, program, **variables):
        path = self.folder / "program.py"
        path.write_text(program)
        done = subprocess.run(SETUP.recording(self.folder / "run.gmtrace", *SETUP.command(path)), env={**self.environment, **variables}, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def ask(self, command, *options):
        done = subprocess.run([SETUP.gpumem, command, self.folder / "run.gmtrace", *options], env=self.environment, capture_output=True, text=True, timeout=120)
        return done.stdout

    def test_levels(self):
        ours = {level: self.record("import torch; torch.empty(8, device='cuda')", GPUMEMSHIM_LOG=level, GPUMEMSHIM_MISSPELT="1").stderr for level in ("off", "error", "warning", "info", "debug")}
        self.assertEqual((ours["off"], ours["error"]), ("", ""))
        self.assertRegex(ours["warning"], r"^gpumemshim: GPUMEMSHIM_MISSPELT is not a setting[^\n]*\n$")
        self.assertRegex(ours["info"], r"not a setting(?s:.*)gpumemshim: \d+ events")
        self.assertRegex(ours["debug"], r"gpumemshim: recording process \d+, version [^\n]*GPUMEMSHIM_LOG=debug(?s:.*)gpumemshim: \d+ events")

    def test_progress(self):
        slept = self.record("import torch, time; x = torch.empty(8, device='cuda'); time.sleep(4)", GPUMEMSHIM_STATUS="1s").stderr
        self.assertRegex(slept, r"gpumemshim: \d+ s: \d+ events?, 0 lost, [^\n]*; GPU 0: [^\n]* used")

    def test_settings_of_a_program_that_runs(self):
        program = self.start(stderr=subprocess.PIPE)
        self.addCleanup(program.stderr.close)
        pid = json.loads(self.ctl("--json"))["processes"][0]["pid"]
        self.assertIn("  GPUMEMSHIM_LOG=info\n", self.ctl(pid, "settings"))
        self.ctl(pid, "set", "GPUMEMSHIM_LOG=debug")
        self.ctl(pid, "set", "GPUMEMSHIM_STATUS=1s")
        settings = {each["name"]: each for each in json.loads(self.ctl(pid, "settings", "--json"))["settings"]}
        self.assertEqual(settings["GPUMEMSHIM_STATUS"], {"name": "GPUMEMSHIM_STATUS", "value": "1s", "can_change": True})
        self.assertFalse(settings["GPUMEMSHIM_OUTPUT"]["can_change"])
        self.assertIn("read once", self.ctl(pid, "set", "GPUMEMSHIM_RING_SIZE=1M", fails=True))
        self.ctl(pid, "stop")
        self.ctl(pid, "start")
        self.step(program, 2)
        time.sleep(3)
        self.finish(program)
        said = program.stderr.read()
        self.assertIn("recording is off", said)
        self.assertIn("recording is on", said)
        self.assertRegex(said, r"gpumemshim: \d+ s: ")

    def test_limit(self):
        done = self.record(LIMITED, GPUMEMSHIM_LIMIT="1GiB")
        self.assertEqual(int(done.stdout), 1 << 30)
        story = self.ask("oom")
        self.assertIn("This run limits what PyTorch may reserve to 1 GiB (GPUMEMSHIM_LIMIT)", re.sub(r"\s+", " ", story))
        self.assertNotIn("set_per_process_memory_fraction", story)

    def test_a_lower_limit_of_the_program_stays(self):
        done = self.record("import torch\ntorch.cuda.set_per_process_memory_fraction((512 << 20) / torch.cuda.get_device_properties(0).total_memory)\n" + LIMITED, GPUMEMSHIM_LIMIT="1GiB")
        self.assertLessEqual(int(done.stdout), 512 << 20)
        self.assertIn("set_per_process_memory_fraction", self.ask("oom"))

    def test_groups_of_an_optimizer(self):
        self.record(GROUPS)
        groups = {each["name"]: each for each in json.loads(self.ask("model", "--json"))["groups"] if each["by"] == "optimizer_group"}
        rates = {name: (each["first_learning_rate"], each["learning_rate"], each["weight_decay"]) for name, each in groups.items()}
        self.assertEqual(rates, {"AdamW 0": (1e-3, 2.5e-4, 0.01), "AdamW 1": (3e-4, 7.5e-5, 0.5)}, "of the third step, the last that was sampled")
        self.assertRegex(self.ask("model"), r"0\.001 to 0\.00025 +0\.01 +AdamW 0")


if __name__ == "__main__":
    truth.run_tests(globals())

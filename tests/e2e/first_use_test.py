# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a person meets in the first minutes: what a library keeps is nobody's line, a stage is a moment, the ranks of a job are named, and a sweep that cannot run ends early.

    python tests/e2e/first_use_test.py --build build/release
"""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import truth

SETUP = None
ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = """
import torch
model = torch.nn.Linear(2048, 2048).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(64, 2048, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
WORKSPACE = "cuBLAS workspace"


class FirstUse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-first-use-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "train.py").write_text(TRAIN)
        cls.trace = cls.folder / "t.gmtrace"
        cls.environment = truth.environment_of(truth.Case("none"), SETUP)
        truth.run(SETUP.recording(cls.trace, *SETUP.command(cls.folder / "train.py")), SETUP, cls.environment)

    def ask(self, *words, expected=0):
        done = subprocess.run([str(SETUP.gpumem), *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout


class Answers(FirstUse):
    def test_what_a_library_keeps_is_no_line_of_the_program(self):
        for words in (("leaks",), ("peak",), ("table",), ("tree",), ("report",)):
            text = self.ask(*words, self.trace)
            self.assertIn(WORKSPACE, text, words)
        alive = json.loads(self.ask("leaks", "--json", self.trace))["devices"][0]["alive"]["torch"]["stacks"]
        kept = [stack for stack in alive if any("Workspace" in frame["function"] for frame in stack["frames"])]
        self.assertTrue(kept)
        self.assertEqual({stack["site"] for stack in kept}, {WORKSPACE})
        rows = json.loads(self.ask("sql", self.trace, "SELECT line, sum(size) AS bytes FROM blocks WHERE category = 'workspace' GROUP BY line", "--format", "json"))["rows"]
        self.assertEqual([row["line"] if isinstance(row, dict) else row[0] for row in rows], [WORKSPACE])
        self.assertNotIn(f"top line {WORKSPACE}", self.ask("report", self.trace))

    def test_a_stage_is_a_moment(self):
        stages = {stage["derived"]: stage for stage in json.loads(self.ask("stages", "--json", self.trace))["stages"]}
        at = json.loads(self.ask("at", "training", self.trace, "--json"))
        self.assertIn(str(stages["training"]["peak_bytes"]), json.dumps(at))
        self.assertIn("GiB" if stages["training"]["peak_bytes"] > 1 << 30 else "MiB", self.ask("diff", self.trace, "--from", "model load", "--to", "training"))
        self.ask("diff", self.trace, "--from", "model_load", "--to", "step 2")
        self.ask("at", "no such stage", self.trace, expected=2)

    def test_answers_begin_with_one_line(self):
        for command in ("leaks", "table", "tree", "stages", "steps", "peak"):
            lines = self.ask(command, self.trace).splitlines()
            self.assertRegex(lines[0], r"^train  process \d+ on .*, simulated GPU$", command)
            self.assertEqual(lines[1], "", command)

    def test_the_first_screen_of_the_readme_is_printed(self):
        """In an empty folder, by who has neither PyTorch nor a trace."""
        shown = re.search(r"```console\n\$ (gpumemshim report --example oom)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([SETUP.gpumem, *shown[1].split()[1:]], cwd=empty, env={"PATH": "/nowhere", "LANG": "C.UTF-8", "COLUMNS": "110", "HOME": empty}, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.rstrip() + "\n", shown[2], "scripts/regen_readme writes it anew")

    def test_a_sweep_that_cannot_run_ends_early(self):
        (self.folder / "fails.py").write_text("import argparse; argparse.ArgumentParser().parse_args()")
        environment = truth.environment_of_plans(SETUP)
        command = [str(SETUP.gpumem), "sweep", "--workers", "1", "--no-files", "--axis", "batch=1,2,4", "--axis", "length=8,16", "--", SETUP.python, "fails.py", "--batch", "1", "--length", "8"]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("4 configurations did not run", done.stdout)
        self.assertIn("not known what fits", done.stdout)
        self.assertNotIn("no configuration fits", done.stdout)
        self.assertNotIn("How memory grows", done.stdout)


if __name__ == "__main__":
    truth.run_tests(globals())

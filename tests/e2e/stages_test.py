# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The stages of an unmodified run are the program's: each begins and ends with the bytes that PyTorch counted there. Steps have the trainer's numbers,
and tables by operator and module have all bytes of the peak.

    python tests/e2e/stages_test.py --build build/release
"""

import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "stages.py"


class StagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-stages-")
        cls.addClassCleanup(folder.cleanup)
        cls.trace = pathlib.Path(folder.name) / "stages.gmtrace"
        environment = truth.environment_of(truth.Case("none"), SETUP)
        output = truth.run(SETUP.recording(cls.trace, *SETUP.command(PROGRAM)), SETUP, environment)
        cls.reported = json.loads(output.splitlines()[-1])

    def ask(self, *arguments):
        return json.loads(truth.run([SETUP.gpumem, *arguments, "--json", str(self.trace)], SETUP))

    def test_stages_are_those_of_the_run(self):
        stages = {stage["derived"]: stage for stage in self.ask("stages")["stages"]}
        self.assertEqual(
            list(stages),
            ["model_load", "data_preparation", "lora_setup", "privacy_setup", "optimizer_setup", "training", "evaluation", "checkpoint_load"],
        )
        before = 0
        for name, allocated in self.reported["borders"]:
            stage = stages[name]
            if name != "checkpoint_load":
                self.assertEqual((stage["start_bytes"], stage["end_bytes"]), (before, allocated), name)
                self.assertEqual(stage["growth_bytes"], allocated - before, name)
                before = allocated
        self.assertEqual(stages["training"]["start_bytes"], before)
        self.assertEqual(stages["evaluation"]["count"], 2)
        self.assertEqual(stages["checkpoint_load"]["peak_bytes"] - stages["checkpoint_load"]["start_bytes"], self.reported["checkpoint"])
        self.assertGreater(stages["training"]["categories"]["gradient"], 0)
        self.assertGreater(stages["lora_setup"]["categories_at_end"]["parameter"], stages["model_load"]["categories_at_end"]["parameter"])
        self.assertEqual(sum(stages["training"]["categories"].values()), stages["training"]["total_bytes"] + stages["training"]["categories"]["context"])

    def test_steps_have_the_trainers_numbers_and_virtual_steps(self):
        steps = [step for step in self.ask("steps")["steps"] if step["complete"]]
        self.assertEqual([step["trainer_step"] for step in steps], [1, 2, 3, 4, 5, 6])
        self.assertEqual([step["epoch"] for step in steps], [1, 1, 1, 2, 2, 2])
        self.assertEqual([step["backward_passes"] for step in steps], [2] * 6)
        text = truth.run([SETUP.gpumem, "steps", str(self.trace)], SETUP)
        self.assertRegex(text, r"step +epoch +trainer's +passes")
        self.assertRegex(text, r"\n +4 +2 +4 +2 ")

    def test_tables_have_all_bytes_of_the_peak(self):
        peak = next(iter(self.ask("peak")["devices"]))["peak"]["allocated_bytes"]
        for by in ("line", "function", "operator", "module", "component", "stage", "category", "file"):
            rows = self.ask("table", "--by", by)["rows"]
            self.assertEqual(sum(row["self_bytes"] for row in rows), peak, by)
            self.assertEqual(any(row["name"].startswith("aten::") for row in rows), by == "operator", by)
        operators = {row["name"] for row in self.ask("table", "--by", "operator", "--total")["rows"]}
        self.assertLessEqual({"aten::linear", "aten::mm"}, {name.split("(")[0] for name in operators}, operators)


if __name__ == "__main__":
    truth.run_tests(globals())

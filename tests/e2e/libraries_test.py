# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Categories, parts, steps and epochs of trainings with libraries that nobody here wrote, against what their own tensors and counters say: peft,
Opacus, transformers' Trainer, Lightning, FSDP2 on two ranks.

    python tests/e2e/libraries_test.py --build build/release --full [--keep]

The libraries go into an environment under the build tree (scripts/requirements/libraries.txt, 400 MB), removed at the end but for --keep; pip keeps the
downloads in its cache. Exit 77 where they cannot be had.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import ground_truth_test
import python_api_test
import truth
import wheels_test

SETUP = None
PROGRAM = truth.PROGRAMS / "libraries.py"
ROLES = ("parameter", "buffer", "gradient", "optimizer_state")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def install(environment, python, requirements="libraries.txt", built=()):
    """An environment with the packages of scripts/requirements/REQUIREMENTS over those of `python`; `built`: those that exist as source alone. Where they
    cannot be had, the test ends as skipped."""
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment)], check=True)
    others = wheels_test.site_packages(pathlib.Path(python).parent.parent)
    (wheels_test.site_packages(environment) / "others.pth").write_text(f"{others}\n")
    pip = [python, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--no-deps", "--only-binary=:all:", *(f"--no-binary={each}" for each in built), "--no-input", "--progress-bar", "off"]
    done = subprocess.run([*pip, "-r", str(truth.ROOT / "scripts" / "requirements" / requirements)], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(environment, ignore_errors=True)
        wheels_test.skip(f"pip cannot install {requirements}: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")


class Training:
    """A case of the program, recorded; and run a second time for what autograd keeps."""

    def __init__(self, case, folder, ranks=1, count_saved=True):
        self.folder = pathlib.Path(folder)
        environment = truth.environment_of(truth.Case("none", devices=ranks), SETUP)
        environment.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", HF_HUB_OFFLINE="1")
        *python, program = SETUP.command(PROGRAM)
        command = [*python, *(TORCHRUN if ranks > 1 else ()), program, case]
        trace = self.folder / ("run.r%r.gmtrace" if ranks > 1 else "run.gmtrace")
        truth.run(SETUP.recording(trace, *command, "--output", str(self.folder / "reported")), SETUP, environment)
        self.reported = [json.loads((self.folder / f"reported.{rank}").read_text()) for rank in range(ranks)]
        self.traces = [self.folder / f"run.r{rank}.gmtrace" if ranks > 1 else trace for rank in range(ranks)]
        self.saved = None
        if count_saved:
            truth.run([*command, "--saved", "--output", str(self.folder / "saved")], SETUP, environment)
            self.saved = json.loads((self.folder / "saved.0").read_text())

    def answer(self, command, *arguments, rank=0):
        return json.loads(truth.run([SETUP.gpumem, command, "--json", *arguments, str(self.traces[rank])], SETUP))

    def at(self, mark, rank=0, device=0):
        return self.answer("at", mark, "--device", str(device), rank=rank)


class LibrariesTest(unittest.TestCase):
    def train(self, case, **options):
        folder = tempfile.TemporaryDirectory(prefix=f"gpumemshim-{case}-")
        self.addCleanup(folder.cleanup)
        ground_truth_test.SETUP = SETUP
        return Training(case, folder.name, **options)

    def check_marks(self, training, rank=0, but=()):
        """Tensors at each mark (but some), their parts, and little that nothing tells."""
        reported = training.reported[rank]
        self.assertGreater(len(reported), 5)
        for mark, truths in reported.items():
            if mark in but:
                continue
            answer = training.at(mark, rank, device=rank)
            with self.subTest(mark=mark, rank=rank):
                self.assertEqual(ground_truth_test.differences(truths, answer, ROLES), [])
                self.assertEqual(answer["category_parts"], {role: truths[role]["parts"] for role in ("parameter", "gradient")})
                self.assertLess(answer["categories"]["unknown"], 0.01 * answer["values"]["allocated_bytes"])

    def check_saved(self, training):
        """What autograd keeps, as PyTorch's own hooks count it in another run."""
        for mark, truths in training.saved.items():
            if "activation" in truths and truths["activation"]["bytes"]:
                with self.subTest(mark=mark):
                    self.assertEqual(ground_truth_test.differences(truths, training.at(mark), ["activation"], ["bytes"]), [])

    def check_steps(self, training):
        """Steps and epochs as the trainer counts them: two epochs of three steps."""
        steps = training.answer("steps", "--top", "0")["steps"]
        self.assertEqual([step["trainer_step"] for step in steps if step["trainer_step"]], list(range(1, 7)))
        self.assertEqual([step["epoch"] for step in steps if step["epoch"]], [1, 1, 1, 2, 2, 2])
        return steps

    def test_lora(self):
        training = self.train("lora")
        self.check_marks(training)
        self.check_saved(training)
        parts = training.at("4 backward")["category_parts"]["parameter"]
        self.assertGreater(parts["frozen"], 10 * parts["trainable"])
        totals = training.answer("model")["totals"]
        self.assertEqual(totals["lora_parameters"], totals["trainable_parameters"])
        self.assertIn("lora", training.at("4 backward")["components"])
        stages = {row["stage"] for row in training.answer("stages")["stages"]}
        self.assertIn("wrapping", stages)

    def test_opacus(self):
        training = self.train("opacus")
        # Opacus puts other tensors into .grad before the optimizer looks at it: what autograd made is never seen as a gradient, and at the first step
        # nothing else tells either (docs/attribution.md).
        self.check_marks(training, but=["1 backward"])
        backward = training.at("4 backward")
        self.assertGreater(backward["category_parts"]["gradient"]["per_sample"], 10 * training.reported[0]["4 backward"]["parameter"]["bytes"])

    def test_hugging_face(self):
        training = self.train("hugging_face", count_saved=False)
        self.check_marks(training)
        steps = self.check_steps(training)
        self.assertEqual({step["backward_passes"] for step in steps if step["trainer_step"]}, {2})

    def test_lightning(self):
        training = self.train("lightning", count_saved=False)
        self.check_marks(training)
        self.check_steps(training)

    def test_fsdp2(self):
        training = self.train("fsdp2", ranks=2, count_saved=False)
        for rank in range(2):
            self.check_marks(training, rank)
            names = {parameter["name"] for parameter in training.answer("model", "--top", "0", rank=rank)["parameters"]}
            self.assertIn("0.0.weight", names)


class CompatTest(unittest.TestCase):
    def test_debug_lora_training(self):
        """The memory debug tools' training with adapters, without functions of the program's own: what it says is what PyTorch counts."""
        with tempfile.TemporaryDirectory(prefix="gpumemshim-compat-lora-") as folder:
            python_api_test.SETUP = SETUP
            environment = python_api_test.environment(HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore")
            done = subprocess.run(SETUP.command(truth.PROGRAMS / "compat_lora.py"), cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            answer = json.loads(done.stdout.splitlines()[-1])
            self.assertEqual(answer["said"], answer["counted"])
            self.assertEqual((answer["class"], answer["issues"]), ("PeftModel", 0))
            self.assertTrue(list((pathlib.Path(folder) / "logs" / "training_debug").glob("memory_report_*.json")))


class PlansTest(unittest.TestCase):
    """`gpumemshim plan` of programs that use these libraries: an answer, the same each time."""

    def plan(self, program, *arguments):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-plan-") as folder:
            environment = {**truth.environment_of(truth.Case("none"), SETUP), "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
            command = [SETUP.gpumem, "plan", "--json", "--no-what-if", "-o", f"{folder}/plan.gmtrace", "--", SETUP.python, str(program), *arguments]
            return json.loads(truth.run(command, SETUP, environment))

    def check_plan(self, program, *arguments):
        plan = self.plan(program, *arguments)
        self.assertEqual((plan["verdict"], plan["end"]), ("fits", "ended"))
        self.assertEqual(self.plan(program, *arguments)["peak"], plan["peak"])
        return plan

    def test_trainer_with_adapters(self):
        plan = self.check_plan(truth.ROOT / "examples" / "train_llama_lora.py", "--layers", "2", "--seq-len", "128")
        self.assertIn("lora", plan["components"])

    def test_a_scan_of_adapters(self):
        """Forked from one process that imported transformers and peft: each is what a plan of it alone says. The same for private training with adapters."""
        for script, flags in (("train_llama_lora.py", ["--layers", "2", "--seq-len", "{length}", "--rank", "{rank}"]),
                              ("train_dp_lora.py", ["--model", "tiny", "--seq-len", "{length}", "--lora-rank", "{rank}"])):
            example = truth.ROOT / "examples" / script
            with tempfile.TemporaryDirectory(prefix="gpumemshim-sweep-") as folder:
                environment = {**truth.environment_of(truth.Case("none"), SETUP), "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
                rows = json.loads(truth.run([SETUP.gpumem, "sweep", "--json", "--no-files", "--results-dir", folder, "--axis", "length=64,128", "--axis", "rank=4,8", "--",
                                             SETUP.python, str(example), *flags], SETUP, environment))["configurations"]
            for row in rows:
                with self.subTest(script=script, **row["values"]):
                    words = [flag.format(**row["values"]) for flag in flags]
                    peak = self.plan(example, *words)["peak"]
                    self.assertEqual(row["peak_allocated_bytes"], peak["allocated_bytes"])
                    self.assertLessEqual(abs(row["peak_reserved_bytes"] - peak["reserved_bytes"]), 2 << 20)

    def test_private_training(self):
        self.check_plan(truth.ROOT / "examples" / "train_dp_sgd.py")

    def test_a_scan_of_private_training(self):
        """Parameters, gradients for each sample and the optimizer's state, against what shapes and types say, for each configuration of a sweep."""
        example = truth.ROOT / "examples" / "train_dp_sgd.py"
        with tempfile.TemporaryDirectory(prefix="gpumemshim-sweep-") as folder:
            environment = {**truth.environment_of(truth.Case("none"), SETUP), "PYTHONWARNINGS": "ignore"}
            truth.run([SETUP.gpumem, "sweep", "--results-dir", folder, "--axis", "physical-batch-size=2,4,8", "--axis", "seq-len=32,64", "--",
                       SETUP.python, str(example), "--physical-batch-size", "8", "--seq-len", "64", "--batch-size", "16"], SETUP, environment)
            rows = json.loads((pathlib.Path(folder) / "detailed_memory_results.json").read_text())["configurations"]
        width, vocabulary, classes = 512, 10000, 20
        layer = 2 * width + (width * 4 * width + 4 * width) + (4 * width * width + width)
        parameters = 4 * (vocabulary * width + 4 * layer + width * classes + classes)
        self.assertEqual(len(rows), 6)
        for row in rows:
            batch = row["values"]["physical-batch-size"]
            with self.subTest(**row["values"]):
                self.assertEqual(row["tensors"]["parameter"], parameters)
                self.assertEqual(row["tensors"]["optimizer_state"], parameters)  # momentum
                self.assertEqual(row["tensors"]["per_sample"], batch * parameters)
                # Opacus' clipped sum, and the gradient that it puts in its place.
                self.assertEqual(row["tensors"]["gradient"], (batch + 2) * parameters)

    def test_generated_text(self):
        self.check_plan(truth.PROGRAMS / "planned_libraries.py", "generate")

    def test_the_cache_of_generated_text(self):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-cache-") as folder:
            counted = pathlib.Path(folder) / "bytes"
            plan = self.plan(truth.PROGRAMS / "planned_libraries.py", "cache", str(counted))
            cache = int(counted.read_text().split()[0])  # of the first run; the one with other values ends at once
        layer = 2 * 64 * 4 * 64 * 4 * (16 + 1999)  # keys and values; the last token is never an input
        self.assertEqual(cache, 2 * layer)
        self.assertEqual((plan["verdict"], plan["end"]), ("fits", "ended"))
        # Beside it the old keys while a token is appended, and both repeated for twice as many heads of queries.
        self.assertGreater(plan["peak"]["allocated_bytes"], cache + 2 * layer)
        self.assertLess(plan["peak"]["allocated_bytes"], cache + 4 * layer)

    def test_experts(self):
        self.check_plan(truth.PROGRAMS / "planned_libraries.py", "experts")


def main():
    global SETUP
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the environment in place, and use it where it is")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    environment = SETUP.build / "libraries"
    if not (arguments.keep and environment.exists()):
        install(environment, SETUP.python)
    SETUP = truth.Setup(SETUP.build, str(environment / "bin" / "python"), simulated=True)
    try:
        return 0 if unittest.main(argv=rest, exit=False).result.wasSuccessful() else 1
    finally:
        if not arguments.keep:
            shutil.rmtree(environment, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

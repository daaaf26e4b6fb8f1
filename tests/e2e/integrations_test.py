# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The package with the real packages: TensorBoard, MLflow, OpenTelemetry, W&B, Transformers, Lightning, Accelerate, pandas, pyarrow, the Model Context Protocol's SDK.

    python tests/e2e/integrations_test.py --build build/release --full [--keep]

They go into an environment under the build tree (scripts/requirements/integrations.txt), removed at the end but for --keep. Exit 77 where they cannot be had.
"""

import argparse
import csv
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import libraries_test
import python_api_test
import truth

SETUP = None
MB = 1 << 20


def environment(**more):
    python_api_test.SETUP = SETUP
    return python_api_test.environment(HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore", WANDB_MODE="offline", WANDB_SILENT="true", **more)


class IntegrationsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-integrations-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def python(self, *command):
        done = subprocess.run(command, cwd=self.folder, env=environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.errors = done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def case(self, name):
        return self.python(*SETUP.command(truth.PROGRAMS / "integrations.py"), name)

    def test_sinks(self):
        answer = self.case("sinks")
        peaks = [[step, (step + (64 if step == 4 else 16)) * MB] for step in range(1, 7)]
        self.assertEqual([[step, row["gpu0/peak_bytes"]] for step, row in answer["rows"]], peaks)
        self.assertEqual([row["gpu0/end_bytes"] for _, row in answer["rows"]], list(answer["truths"].values()))
        self.assertEqual({row["gpu0/grown_bytes"] for _, row in answer["rows"]}, {MB})
        self.assertEqual((answer["tensorboard"], answer["mlflow"]), (peaks, peaks))
        self.assertEqual(answer["open_telemetry"], {"0": peaks[-1][1]})
        self.assertEqual([row["gpumemshim/gpu0/peak_bytes"] for kind, row, *_ in answer["wandb"] if kind == "log"], [size for _, size in peaks])
        self.assertEqual((answer["failed"], self.errors.count("is left out from now on: ValueError: a sink's own")), (1, 1))

    def test_wandb(self):
        code = "import json, wandb; from gpumemshim.integrations import wandb as sink_of; run = wandb.init(project='p', dir='.'); sink = sink_of(); sink(3, {'gpu0/peak_bytes': 7}); said = dict(run.summary); run.finish(); print(json.dumps([said['gpumemshim/gpu0/peak_bytes'], said['gpumemshim/step']]))"
        self.assertEqual(self.python(SETUP.python, "-c", code), [7, 3])

    def test_transformers(self):
        answer = self.case("transformers")
        self.assertEqual((answer["rows"], [row["step"] for row in answer["history"]]), ([2, 4, 6, 8], [2, 4, 6, 8]))
        self.assertEqual(max(row["gpu0/peak_bytes"] for row in answer["history"]), answer["peak"])

    def test_lightning(self):
        answer = self.case("lightning")
        self.assertEqual([step for step, _ in answer["rows"]], [2, 4, 6, 8, 10])
        self.assertEqual(max(row["gpu0/peak_bytes"] for _, row in answer["rows"]), answer["peak"])
        logged = [int(float(row["gpu0/peak_bytes"])) for row in csv.DictReader(io.StringIO(answer["csv"]))]
        self.assertEqual(logged, [row["gpu0/peak_bytes"] for _, row in answer["rows"]])

    def test_accelerate(self):
        answer = self.case("accelerate")
        self.assertEqual(answer["rows"], answer["peaks"], "what PyTorch counted in each stretch")
        self.assertEqual(answer["tensorboard"], answer["peaks"])

    def test_tables(self):
        code = "import json, gpumemshim; table = gpumemshim.Table([{'step': 1, 'bytes': 5}, {'step': 2, 'bytes': None}]); frame, arrow = table.to_pandas(), table.to_arrow(); print(json.dumps([list(frame.columns), len(frame), arrow.num_rows, arrow.column_names, arrow['bytes'].to_pylist()]))"
        self.assertEqual(self.python(SETUP.python, "-c", code), [["step", "bytes"], 2, 2, ["step", "bytes"], [5, None]])

    def test_model_context_protocol(self):
        (self.folder / "runs").mkdir()
        (self.folder / "secret.gmtrace").write_text("outside")
        truth.run(SETUP.recording(self.folder / "runs" / "leak.gmtrace", *SETUP.command(truth.ROOT / "examples" / "leak.py")), SETUP, environment())
        answer = self.python(SETUP.python, str(truth.PROGRAMS / "mcp_client.py"), str(self.folder / "runs"), SETUP.gpumem)
        self.assertEqual(answer["tools"], ["at", "diff", "explain", "forecast", "leaks", "list_traces", "modules", "oom", "report", "sql", "steps"])
        self.assertTrue(all(answer["read_only"]))
        self.assertTrue(answer["list_traces"].startswith("leak.gmtrace  "), answer)
        self.assertIn("GROWING", answer["report"])
        self.assertIn("examples/leak.py:23", answer["leaks"])
        self.assertIn("step 3", answer["at"])
        self.assertTrue(answer["sql"] == "DuckDB" or "30" in answer["sql"], answer["sql"])
        self.assertIn("lies outside", answer["outside"])
        self.assertIn("there is no trace", answer["missing"])
        self.assertIn("no answer", answer["flag"])
        self.assertEqual(sorted(path.name for path in self.folder.rglob("*")), ["leak.gmtrace", "runs", "secret.gmtrace"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the environment there")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    if not arguments.full:
        print("nothing to do without --full: the packages would have to be installed")
        sys.exit(0)
    place = SETUP.build / "integrations"
    if not (arguments.keep and (place / "bin" / "python").exists()):
        libraries_test.install(place, SETUP.python, "integrations.txt")
    SETUP.python = str(place / "bin" / "python")
    try:
        unittest.main(argv=rest)
    finally:
        if not arguments.keep:
            shutil.rmtree(place, ignore_errors=True)

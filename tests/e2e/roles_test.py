# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Roles of ranks by their process groups: what `gpumemshim ranks` says of a DeviceMesh's dimensions, of new_group, and of nothing else.

    python tests/e2e/roles_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None


class Roles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-roles-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def record(self, rank, *options, program="meshes.py"):
        environment = {**truth.environment_of(truth.Case("none"), SETUP), "RANK": str(rank), "WORLD_SIZE": "8", "PYTHONWARNINGS": "ignore"}
        command = [SETUP.gpumem, "run", "-o", f"{self.folder}/", "--", *SETUP.command(truth.PROGRAMS / program), *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SETUP.timeout_s, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def ranks(self):
        done = subprocess.run([SETUP.gpumem, "ranks", "--json", str(self.folder)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 4, done.stderr)  # ranks are missing
        return json.loads(done.stdout)

    def test_dimensions_of_a_mesh_and_described_groups(self):
        for rank in (0, 5):
            self.record(rank)
        answer = self.ranks()
        roles = {each["rank"]: {role["name"]: (role["rank"], role["size"]) for role in each["roles"]} for each in answer["ranks"]}
        # Rank 5 of 2 x 2 x 2 is 1, 0, 1.
        self.assertEqual(roles[5], {"pp": (1, 2), "dp_shard": (0, 2), "tp": (1, 2), "ep": (5, 8)})
        self.assertEqual(roles[0], {"pp": (0, 2), "dp_shard": (0, 2), "tp": (0, 2), "ep": (0, 8)})
        self.assertEqual(answer["model_parts"], 2, "stages are compared each by itself, though both hold the same parameters")
        rows = subprocess.run([SETUP.gpumem, "sql", "--format", "csv", str(self.folder), "SELECT DISTINCT _rank, _role FROM events ORDER BY 1"], capture_output=True, text=True, timeout=120).stdout
        self.assertEqual(rows.splitlines()[1:], ['0,"pp 0/2, dp_shard 0/2, tp 0/2, ep 0/8"', '5,"pp 1/2, dp_shard 0/2, tp 1/2, ep 5/8"'])
        text = subprocess.run([SETUP.gpumem, "ranks", str(self.folder)], capture_output=True, text=True, timeout=120).stdout
        self.assertIn("pp 1/2, dp_shard 0/2, tp 1/2, ep 5/8", text)

    def test_wrappers_that_divide_batches(self):
        said = {}
        for wrapper in ("ddp", "fsdp", "no_shard", "none"):
            self.record(5, wrapper, program="wrappers.py")
            (trace,) = self.folder.glob("*.gmtrace")
            rows = subprocess.run([SETUP.gpumem, "sql", "--format", "csv", trace, "SELECT role FROM processes"], capture_output=True, text=True, timeout=120).stdout
            said[wrapper] = rows.splitlines()[1:]
            trace.unlink()
        self.assertEqual(said, {"ddp": ["dp 5/8"], "fsdp": ["dp_shard 5/8"], "no_shard": [""], "none": [""]})

    def test_odd_objects_disturb_nothing(self):
        stderr = self.record(5, "--odd")
        self.assertNotIn("odd", stderr)
        (rank,) = self.ranks()["ranks"]
        self.assertEqual([role["name"] for role in rank["roles"]], ["pp", "dp_shard", "tp", "ep"])
        report = truth.report(SETUP, next(self.folder.glob("*.gmtrace")))
        self.assertNotIn("helper", json.dumps(report["notes"]).lower())


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Who is seen to keep GPU memory at the end of a run that grew (shim/python/owners.py): each way of keeping by its own name, and nothing changed by looking.

    python tests/e2e/owners_test.py --build build/release
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "owners.py"
# Function that allocates -> (where the way begins, the way).
WAYS = {
    "keeps_in_list": ("global", "in_list[*]"),
    "keeps_in_dict": ("global", "in_dict[*]"),
    "keeps_in_deque": ("global", "in_deque[*]"),
    "keeps_in_set": ("global", "in_set{*}"),
    "keeps_in_slot": ("global", "NODES[*].tensor"),
    "keeps_in_attribute": ("global", "PLAINS[*].value['x']"),
    "keeps_in_class": ("class", "items[*]"),
    "keeps_in_default": ("function", "cache[*]"),
    "make.<locals>.keeps_in_closure": ("function", "seen[*]"),
    "keeps_in_cache": ("global", "keeps_in_cache[*]"),
    "keeps_in_traceback": ("global", "ERRORS[*].__traceback__ -> keeps_in_traceback: batch"),
    "keeps_in_generator.<locals>.stream": ("global", "WAITING[*] -> a variable of the generator stream"),
    "Cell.forward": ("cycle", ".out"),
    "keeps_in_cycle": ("cycle", ".value"),
}
GRADIENTS = "keeps_in_graph_of_gradients"


class OwnersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-owners-")
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name) / "run.gmtrace"

    def run_program(self, **environment):
        """What the program printed, and the growing rows by the function that the line is in, innermost but for tensor()."""
        case = truth.environment_of(truth.Case("none"), SETUP)
        printed = truth.last_json_line(truth.run(SETUP.recording(self.trace, *SETUP.command(PROGRAM)), SETUP, {**case, **environment}))
        answer = json.loads(truth.run([SETUP.gpumem, "leaks", "--json", str(self.trace)], SETUP))
        return printed, [row for device in answer["devices"] for row in device["leaks"]]

    def test_each_way_is_seen_and_nothing_is_changed(self):
        printed, rows = self.run_program()
        seen = {row["site"].rpartition(" ")[2]: (row["owner_root"], row["owner_path"]) for row in rows if GRADIENTS not in row["site"]}
        self.assertEqual(seen, WAYS)
        for row in rows:
            self.assertEqual(row["status"], "growing", row["site"])
            self.assertIsNone(row["candidate_file"] if row["owner"] else None, row["site"])
            if row["owner_root"] == "cycle":
                self.assertIn("collector is off", row["kept_by"])
        # A parameter and its gradient keep each other in C++: one of them has an object in Python.
        words = " ".join(row["kept_by"] for row in rows if GRADIENTS in row["site"])
        self.assertIn("create_graph=True", words)
        self.assertEqual(printed["before"], printed["after"])

    def test_what_nobody_looked_for_is_not_said(self):
        for limit in ("0", "1"):
            printed, rows = self.run_program(GPUMEMSHIM_OWNERS_MS=limit)
            with self.subTest(limit=limit):
                self.assertEqual([row["owner"] for row in rows], [None] * len(rows))
                self.assertEqual([row for row in rows if "not seen" not in row["kept_by"]], [])
                self.assertEqual(printed["before"], printed["after"])


class OutOfMemoryTest(unittest.TestCase):
    def test_kept_exceptions_are_seen(self):
        """Also where the program is killed later: the look was soon after the failure."""
        for killed in (False, True):
            with self.subTest(killed=killed), tempfile.TemporaryDirectory(prefix="gpumemshim-owners-") as folder:
                trace = pathlib.Path(folder) / "run.gmtrace"
                environment = truth.environment_of(truth.Case("none"), SETUP) | {"SIMCUDA_CAPACITY_MB": "2560"} | ({"OWNERS_KILLED": "1"} if killed else {})
                command = SETUP.recording(trace, *SETUP.command(truth.PROGRAMS / "owners_oom.py"))
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode != 0, killed, done.stderr)
                answer = json.loads(subprocess.run([SETUP.gpumem, "oom", "--json", str(trace)], capture_output=True, text=True, timeout=120).stdout)
                owners = answer["ooms"][0]["owners"]
                kept = {(row["owner_root"], row["owner_path"]): row["owner_bytes"] for row in owners}
                self.assertEqual(kept["global", "failures[0].__traceback__ -> attempt: batch"], 1024 << 20, kept)
                self.assertEqual(kept["variable", "answers[*]"], 16 * 8 << 20, kept)
                self.assertIn("str(error)", " ".join(action["action"] for action in answer["ooms"][0]["actions"]))


if __name__ == "__main__":
    truth.run_tests(globals())

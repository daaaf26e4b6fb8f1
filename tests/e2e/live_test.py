# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim ctl PID tensors` and `gradients` ask a running, unmodified program, which goes on as before; nothing of it runs unasked.

    python tests/e2e/live_test.py --build build/release
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "live.py"
MIB = 1 << 20


class LiveTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="live-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, argument, **more):
        # Who holds what is found among the objects that Python collects; after a quick start the program's globals are none.
        plain = dataclasses.replace(SETUP, quick=False)
        environment = {**truth.environment_of(truth.Case("none"), plain), "XDG_RUNTIME_DIR": str(self.folder), **more}
        self.environment = environment
        command = SETUP.recording(self.folder / "live.gmtrace", *SETUP.command(PROGRAM), argument)
        self.program = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.program.communicate)
        self.pid = self.program.stdout.readline().strip()
        self.addCleanup(self.end)

    def end(self):
        if self.program.poll() is None:
            os.kill(int(self.pid), signal.SIGKILL)  # it may be a child of what was started
            self.program.kill()

    def ask(self, *words, code=0, given=""):
        done = subprocess.run([SETUP.gpumem, "ctl", self.pid, *words], env=self.environment, input=given, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_tensors_and_gradients_of_a_running_program(self):
        stop = self.folder / "stop"
        self.start(str(stop))
        answer = json.loads(self.ask("tensors", "--json"))
        rows = {row["holders"]: row for row in answer["tensors"]}
        self.assertEqual((rows["Cache.keys"]["bytes"], rows["Cache.keys"]["dtype"], rows["Cache.keys"]["device"]), (6 * MIB, "uint8", "cuda:0"))
        self.assertEqual((rows["Linear.weight"]["bytes"], rows["Linear.weight"]["requires_grad"]), (2 * MIB, True))
        self.assertEqual(rows["the global __main__.CACHE[310]"]["bytes"], MIB)
        self.assertEqual(rows["the global __main__.CACHE[310]"]["chain"], "the global __main__.CACHE[310]")
        self.assertEqual(rows["Cache.keys"]["chain"], "")  # a local variable's
        self.assertEqual((answer["bytes"], answer["left_out"]), (11 * MIB + 2048 + 64 * MIB, 0))
        self.assertIn("3 MiB  3 tensors, held by the global __main__.CACHE[...]; largest uint8 (1048576,)", self.ask("tensors"))
        self.assertIn("6 MiB  uint8 (6291456,) on cuda:0, held by Cache.keys", self.ask("tensors"))
        gradients = json.loads(self.ask("gradients", "--json"))
        self.assertEqual((gradients["nan"], gradients["inf"], len(gradients["gradients"])), (1, 1, 1))
        (row,) = gradients["gradients"]
        self.assertEqual((row["name"], row["elements"], row["min"], row["max"]), ("weight", 12, -2.0, 3.0))
        self.assertAlmostEqual(row["norm"], 14**0.5, places=6)
        self.assertIn("1 NaN", self.ask("gradients"))
        page = (truth.ROOT / "docs" / "json.md").read_text()
        for key in {*answer, *gradients, *row, *rows["Cache.keys"]}:
            self.assertRegex(page, rf"`{key}`")
        self.check_memory_now()
        stop.touch()
        output, errors = self.program.communicate(timeout=120)
        self.assertEqual((output, self.program.returncode), (f"1.0 {6 * MIB} 1024\n", 0), errors)

    def check_memory_now(self):
        """Before and after the collector: a tensor that only a cycle of Python's holds goes, and its segment with it."""
        page = (truth.ROOT / "docs" / "json.md").read_text()
        before = json.loads(self.ask("--json"))
        self.assertEqual((before["asked"], before["state"]), ("memory", "recording"))
        given = json.loads(self.ask("gc", "--json"))
        after = json.loads(self.ask("memory", "--json"))
        self.assertEqual(before["memory"]["values"]["allocated_bytes"] - after["memory"]["values"]["allocated_bytes"], 64 * MIB)
        (device,) = given["devices"]
        self.assertEqual((device["allocated_before"], device["allocated_after"]), (before["memory"]["values"]["allocated_bytes"], after["memory"]["values"]["allocated_bytes"]))
        self.assertGreater(device["reserved_before"], device["reserved_after"])
        self.assertGreater(given["collected"], 0)
        self.assertIn("-> ", self.ask("gc"))
        text = self.ask()
        self.assertIn("live.py:", text)
        self.assertIn("recording for", text)
        frames = json.loads(self.ask("backtrace", "--json"))["frames"]
        self.assertRegex(" ".join(row["frame"] for row in frames if row["thread"] == "MainThread"), r"live\.py:\d+ wait_for .*live\.py:\d+ main ")
        self.assertRegex(" ".join(row["frame"] for row in frames if row["thread"] == "waiter"), r"live\.py:\d+ wait_for ")
        self.assertIn("waiter\n", self.ask("backtrace"))
        self.assertIn("GPUMEMSHIM_EVAL=1", self.ask("eval", "1", code=1))
        for key in {*given, *device, *frames[0], *before} - {"memory"}:
            self.assertRegex(page, rf"`{key}`")

    def test_code_is_evaluated_where_that_was_allowed(self):
        stop = self.folder / "stop"
        self.start(str(stop), GPUMEMSHIM_EVAL="1")
        self.assertEqual(self.ask("eval", "sorted(CACHE)"), "[300, 310, 320]\n")
        self.assertEqual(self.ask("eval", "del CACHE[310]"), "")
        self.assertIn("KeyError: 310", self.ask("eval", "CACHE[310]", "--json", code=1) or "KeyError: 310")
        self.assertEqual(json.loads(self.ask("eval", "len(CACHE)", "--json"))["text"], "2\n")
        self.assertEqual(self.ask("repl", given="answer = 6 * 7\nanswer\nraise SystemExit(3)\n'x' * 2000\n"), "42\nSystemExit: 3\n'" + "x" * 899 + "\n" + "x" * 900 + "\n" + "x" * 201 + "'\n")
        stop.touch()
        output, errors = self.program.communicate(timeout=120)
        self.assertEqual((output, self.program.returncode), (f"1.0 {6 * MIB} 1024\n", 0), errors)

    def test_one_that_does_not_come_to_it_says_so(self):
        self.start("busy")
        self.assertIn("did not come to it in time", self.ask("tensors", code=1))
        self.assertIn("still busy with a request", self.ask("gradients", code=1))
        self.assertIn("recording", self.ask("status"))

    def test_nothing_runs_where_the_helper_is_off(self):
        self.start(str(self.folder / "stop"), GPUMEMSHIM_HELPER="0")
        self.assertIn("GPUMEMSHIM_HELPER=0", self.ask("tensors", code=1))


if __name__ == "__main__":
    truth.run_tests(globals())

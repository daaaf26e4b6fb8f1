# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The package python/gpumemshim as people call it: record() with and without the preload says what PyTorch counted, and the answers about a trace are those
of the command line.

    python tests/e2e/python_api_test.py --build build/release
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "python_api.py"
PACKAGE = truth.ROOT / "python"
MIB = 1 << 20


def environment(**more):
    """With gpumemshim on PATH, as a user has it, and the package."""
    path = f"{SETUP.build / 'bin'}:{os.environ['PATH']}"
    return {**truth.environment_of(truth.Case("none"), SETUP), "PATH": path, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **more}


def python(code, *arguments, **more):
    """What a program of these lines prints; without PyTorch and CUDA."""
    done = subprocess.run([SETUP.python, "-c", code, *map(str, arguments)], env=environment(**more), capture_output=True, text=True, check=False)
    if done.returncode:
        raise truth.Failure(done.stderr[-3000:])
    return done.stdout


class RecordTest(unittest.TestCase):
    PRELOADED = False

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-api-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        command = [*SETUP.command(PROGRAM), str(cls.folder)]
        if cls.PRELOADED:
            command = SETUP.recording(cls.folder / "whole.gmtrace", *command)
        cls.reported = json.loads(truth.run(command, SETUP, environment()).splitlines()[-1])

    def test_it_says_what_pytorch_counted(self):
        start, peak, end = self.reported["counted"]
        self.assertEqual(self.reported["with"][:4], [start, peak, end, end - start])
        self.assertEqual((start, peak, end), (16 * MIB, 112 * MIB, 48 * MIB))
        self.assertEqual(self.reported["report"], peak)

    def test_it_says_so_in_a_sentence(self):
        trace = self.reported["trace"]
        self.assertEqual(self.reported["with"][4], f"with: peak 112 MiB (16 MiB when it began), left 32 MiB behind; {trace}")
        self.assertIn("holds 48 MiB now", self.reported["inside"])

    def test_the_peak_has_its_lines(self):
        size, device, top, line, lines, text = self.reported["peak"]
        self.assertEqual((size, device, top, lines), (112 * MIB, 0, (112 if self.PRELOADED else 96) * MIB, 112 * MIB))  # what was there before has no stack where the recorder came late
        self.assertIn("python_api.py", line)
        self.assertTrue(text.startswith("112 MiB on GPU 0 at "), text)

    def test_what_it_left_behind_is_named(self):
        self.assertIn("+32 MiB", self.reported["changes"])
        self.assertIn("python_api.py", self.reported["changes"])

    def test_pictures_and_pages(self):
        self.assertEqual(self.reported["picture"], b"\x89PNG\r\n\x1a\n".hex())
        self.assertIn("<!doctype html>", pathlib.Path(self.reported["page"]).read_text(encoding="utf-8")[:100])

    def test_a_decorated_call(self):
        result, start, told = self.reported["decorated"]
        self.assertEqual(result, 16 * MIB)
        self.assertEqual(told, [start, start + 24 * MIB, start + 8 * MIB, 8 * MIB])
        self.assertEqual(self.reported["decorated_doc"], "Its docstring stays.")

    def test_parts_inside_parts(self):
        outer, inner = self.reported["outer"], self.reported["inner"]
        self.assertEqual((outer[3], inner[3]), (4 * MIB, 0))
        self.assertEqual(inner[1] - inner[0], 32 * MIB)
        self.assertEqual(outer[1], inner[1])
        self.assertTrue(self.reported["recording_between"])

    def test_exceptions_go_through(self):
        self.assertEqual(self.reported["error"], "the program's own")
        self.assertEqual(self.reported["fails"][1] - self.reported["fails"][0], 8 * MIB)

    def test_nothing_that_goes_wrong_stops_the_program(self):
        self.assertEqual(self.reported["unwritable"], 2 * MIB)
        self.assertIn("gpumemshim is not on PATH", self.reported["without_gpumem"])

    def test_threads(self):
        one, two = self.reported["threads"]["one"], self.reported["threads"]["two"]
        self.assertEqual((one[1] - one[0], two[1] - two[0]), (3 * MIB, 5 * MIB))

    def test_nothing_happened(self):
        start, peak, end, grown = self.reported["nothing"]
        self.assertEqual((peak, end, grown), (start, start, 0))

    def test_recording_ends_with_the_part(self):
        self.assertEqual((self.reported["preloaded"], self.reported["after"]), (self.PRELOADED, self.PRELOADED))

    def test_the_traces_are_where_they_were_asked_for(self):
        for name in ("with.gmtrace", "decorated.gmtrace"):
            self.assertGreater((self.folder / name).stat().st_size, 1000)


class PreloadedTest(RecordTest):
    PRELOADED = True


class BeforeCudaTest(unittest.TestCase):
    """A part that begins before CUDA is used: marks are not recorded then, and a preloaded recorder is not this part's to stop."""

    def check(self, preloaded):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-early-") as folder:
            command, trace = SETUP.command(truth.PROGRAMS / "python_api_early.py"), pathlib.Path(folder) / "early.gmtrace"
            command = SETUP.recording(trace, *command) if preloaded else command
            done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True)
            reported = json.loads(done.stdout.splitlines()[-1])
            self.assertEqual((reported["sizes"], reported["rows"]), ([0, 80 * MIB, 16 * MIB], [[1, 80 * MIB, 16 * MIB]]))
            self.assertEqual((reported["after"], reported["unused"]), (preloaded, "unused: no GPU memory was used"))
            self.assertEqual(reported["changes"], [0, 16 * MIB])
            peak = truth.report(SETUP, trace)["devices"][0]["peak"]["allocated_bytes"]
            self.assertEqual(peak, (272 if preloaded else 80) * MIB, "what comes after belongs to whoever preloaded the recorder")

    def test_without_the_preload(self):
        self.check(preloaded=False)

    def test_preloaded(self):
        self.check(preloaded=True)


class AnswersTest(unittest.TestCase):
    """Of a trace, in a process without CUDA."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-answers-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.trace = cls.folder / "gpt.gmtrace"
        truth.run(SETUP.recording(cls.trace, *SETUP.command(truth.ROOT / "examples" / "train_gpt.py")), SETUP, environment())

    def command_line(self, *arguments):
        return json.loads(truth.run([SETUP.gpumem, *arguments, "--json", str(self.trace)], SETUP))

    def test_they_are_those_of_the_command_line(self):
        code = """
import json, sys, gpumemshim
trace = sys.argv[1]
peak = gpumemshim.peak(trace, top=0)
print(json.dumps([peak.bytes, peak.step, peak.categories, sum(row["bytes"] for row in peak.lines), len(gpumemshim.steps(trace)),
                  gpumemshim.steps(trace)[1]["peak_bytes"], gpumemshim.report(trace)["verdict"], gpumemshim.leaks(trace)["command"],
                  gpumemshim.diff(trace, trace)["delta_bytes"]]))"""
        size, step, categories, lines, steps, peak, verdict, leaks, delta = json.loads(python(code, self.trace))
        at, report = self.command_line("at", "peak"), self.command_line("report")
        self.assertEqual((size, step), (at["values"]["allocated_bytes"], at["step"]))
        self.assertEqual(sum(categories.values()), at["bytes"])
        self.assertEqual(lines, sum(stack["bytes"] for stack in self.command_line("at", "peak", "--top", "0")["stacks"]))
        self.assertEqual((steps, peak), (10, self.command_line("steps")["steps"][1]["peak_bytes"]))
        self.assertEqual((verdict, leaks, delta), (report["verdict"], "leaks", 0))

    def test_a_window(self):
        code = "import sys, gpumemshim; print(gpumemshim.peak(sys.argv[1], end='step 1').bytes, gpumemshim.report(sys.argv[1], start=0.0, end='step 1')['devices'][0]['peak']['allocated_bytes'])"
        at = self.command_line("at", "peak", "--to", "step 1")["values"]["allocated_bytes"]
        self.assertEqual(python(code, self.trace).split(), [str(at), str(at)])
        self.assertLess(at, self.command_line("at", "peak")["values"]["allocated_bytes"])

    def test_the_newest_trace_here(self):
        code = f"import os, gpumemshim; os.chdir({str(self.folder)!r}); print(gpumemshim.peak().bytes)"
        self.assertEqual(int(python(code)), self.command_line("at", "peak")["values"]["allocated_bytes"])

    def test_no_answer_is_an_error_with_the_reason(self):
        code = """
import gpumemshim
for call in (lambda: gpumemshim.report("/no/such/trace"), lambda: gpumemshim.report(__file__ if "__file__" in globals() else "/dev/null")):
    try:
        call()
    except gpumemshim.GpumemError as error:
        print(error.code, error)"""
        said = python(code).splitlines()
        self.assertIn("3 gpumemshim: cannot open /no/such/trace", said[0])
        self.assertTrue(said[1].startswith("3 "), said)

    def test_without_gpumem(self):
        code = """
import gpumemshim
for call in (gpumemshim.report, lambda: gpumemshim.record().__enter__()):
    try:
        call()
    except gpumemshim.GpumemError as error:
        print(error)
with gpumemshim.record(optional=True) as recording:
    ran = True
print(ran, recording.trace, recording)"""
        said = python(code, PATH="/usr/bin:/bin").splitlines()
        self.assertIn("gpumemshim is not on PATH", said[0])
        self.assertIn("libgpumemshim.so was not found", said[1])
        self.assertEqual(said[2], "True None record: no GPU memory was used")

    def test_tables(self):
        code = """
import sys, gpumemshim
steps = gpumemshim.steps(sys.argv[1])
print(steps)
print(gpumemshim.Table([{"name": "\\x1b[31m<b>", "bytes": 1536, "share": 0.5}])._repr_html_())
print(gpumemshim.Table())"""
        text = python(code, self.trace)
        self.assertIn("peak_bytes", text.splitlines()[0])
        self.assertIn("GiB", text)
        self.assertIn("\N{REPLACEMENT CHARACTER}[31m&lt;b&gt;", text)
        self.assertNotIn("\x1b", text)
        self.assertIn("1.5 KiB", text)
        self.assertTrue(text.endswith("no rows\n"))

    def test_importing_it_imports_little(self):
        code = "import sys; before = set(sys.modules); import gpumemshim; print(sorted({'subprocess', 'json', 'torch', 'html'} & (set(sys.modules) - before)))"
        self.assertEqual(python(code).strip(), "[]")

    def test_names_are_listed(self):
        code = "import gpumemshim; print(sorted(set(gpumemshim.__all__) - set(dir(gpumemshim))), [n for n in gpumemshim.__all__ if not getattr(gpumemshim, n).__doc__])"
        self.assertEqual(python(code).strip(), "[] []")


if __name__ == "__main__":
    truth.run_tests(globals())

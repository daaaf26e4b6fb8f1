# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A Python file that runs in the program beside the helper (GPUMEMSHIM_INJECTED_SCRIPT), and whatever is wrong with it. Reads of device memory are told
where CUDA is simulated.

    python tests/e2e/injected_script_test.py --build build/release
"""

import collections
import json
import pathlib
import subprocess
import tempfile
import unittest

import history
import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "injected_script.py"
MIB = 1 << 20
UNHARMED = {"interrupted": False, "child": 45, "item": 0.0, "list": 100, "bytes": 8 * MIB}
FAILED = "the file of GPUMEMSHIM_INJECTED_SCRIPT failed"


class InjectedScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-injected-script-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "run.gmtrace"
        self.reported = self.folder / "reported"

    def run_with(self, source, code=0, wait="1", **more):
        """The program with `source` as its injected script. Returns what it printed, as JSON, or None where it was ended before."""
        path = self.folder / "beside.py"
        if source is not None:
            path.write_text(source)
        environment = truth.environment_of(truth.Case("none"), SETUP)
        environment.update(GPUMEMSHIM_INJECTED_SCRIPT=str(path), REPORTED=str(self.reported), WAIT=wait, **more)
        done = subprocess.run(
            SETUP.recording(self.trace, *SETUP.command(PROGRAM)), env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None

    def report(self):
        return truth.report(SETUP, self.trace)

    def helper_note(self):
        """What the trace says of the part that runs in Python; None where nothing failed."""
        report = self.report()
        reported = report["process"]["versions"].get("python_helper")
        self.assertEqual(len([note for note in report["notes"] if reported is not None and reported in note]), 0 if reported is None else 1, report["notes"])
        return reported

    def allocations(self):
        return sum(event["kind"] == "alloc" and event["layer"] == "torch" for event in history.events_of(SETUP, self.trace))


class Runs(InjectedScriptTest):
    def test_once_in_the_main_thread_beside_the_helper(self):
        source = """
import os, sys, threading
with open(os.environ["REPORTED"], "a") as file:
    print(os.getpid(), threading.current_thread() is threading.main_thread(), "torch" in sys.modules, sorted(set(dir(record)) & {"end", "event", "number"}),
          __name__, "json" in globals(), file=file)
"""
        self.assertEqual(self.run_with(source), UNHARMED)
        self.assertIsNone(self.helper_note())
        (line,) = self.reported.read_text().splitlines()
        pid = str(self.report()["process"]["pid"])
        self.assertEqual(line, f"{pid} True True ['end', 'event', 'number'] <gpumemshim> False")

    def test_not_where_nothing_may_run_in_python(self):
        source = "import os; open(os.environ['REPORTED'], 'w')"
        for off in ("GPUMEMSHIM_HELPER", "GPUMEMSHIM_PYTHON"):
            self.assertEqual(self.run_with(source, wait="0", **{off: "0"}), UNHARMED)
            self.assertFalse(self.reported.exists())

    def test_the_programs_own_globals_are_not_its(self):
        self.assertEqual(self.run_with("kept = None; said = 1; import sys; sys.exit = None"), UNHARMED)


class Fails(InjectedScriptTest):
    def test_a_file_that_is_not_there(self):
        self.assertEqual(self.run_with(None), UNHARMED)
        self.assertEqual(self.helper_note(), "the file of GPUMEMSHIM_INJECTED_SCRIPT cannot be read")

    def test_an_empty_file_and_one_that_is_too_long(self):
        for source in ("", "#" * (300 << 10)):
            self.assertEqual(self.run_with(source), UNHARMED)
            self.assertEqual(self.helper_note(), "the file of GPUMEMSHIM_INJECTED_SCRIPT cannot be read")

    def test_a_syntax_error_and_an_exception(self):
        for source in ("def broken(:\n", "raise ValueError('no')", "import no_such_module", "record.no_such_function()", "record.event('x')"):
            self.assertEqual(self.run_with(source), UNHARMED, source)
            self.assertEqual(self.helper_note(), FAILED, source)
            self.assertEqual(self.allocations(), 5, source)

    def test_an_exit_and_an_interrupt_are_the_programs(self):
        self.assertIsNone(self.run_with("raise SystemExit(7)", code=7))
        reported = self.run_with("raise KeyboardInterrupt")
        self.assertEqual((reported["interrupted"], reported["bytes"] >= 4 * MIB), (True, True))
        self.assertEqual(self.helper_note(), FAILED)


class Ends(InjectedScriptTest):
    # The program forks in its middle.
    WHEN_IT_FORKS = "import os; os.register_at_fork(before=lambda: {})"

    def test_the_trace_is_complete_though_nothing_else_ran(self):
        self.assertIsNone(self.run_with(self.WHEN_IT_FORKS.format("(record.end(), os._exit(5))"), code=5))
        report = self.report()
        self.assertTrue(report["complete"])
        self.assertGreaterEqual(self.allocations(), 1)

    def test_a_program_that_goes_on_is_not_recorded(self):
        self.assertEqual(self.run_with(self.WHEN_IT_FORKS.format("(record.end(), record.end())")), UNHARMED)
        self.assertTrue(self.report()["complete"])
        self.assertLess(self.allocations(), 5)


class Reads(InjectedScriptTest):
    def test_each_read_of_device_memory_has_its_stack(self):
        self.assertEqual(self.run_with("pass"), UNHARMED)
        reads = collections.defaultdict(list)
        for event in history.events_of(SETUP, self.trace):
            if event["kind"] == "host_read":
                self.assertNotEqual(event["stack"], 0)
                reads[event["size_bytes"]].append(event["address"])
        self.assertEqual({size: len(addresses) for size, addresses in reads.items()}, {4: 1, 400: 1})


if __name__ == "__main__":
    truth.run_tests(globals())

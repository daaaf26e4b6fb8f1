# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Python lines from end to end: each CPython that is found runs a program that calls the simulated driver by ctypes, and `gpumemshim peak --json` must
name its lines. Then programs that embed Python, and interpreters that are refused.

    python tests/hosts/python_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import hosts_test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import interpreters  # noqa: E402

PROGRAM = pathlib.Path(__file__).resolve().with_name("python_program.py")
SOURCE = PROGRAM.read_text(encoding="utf-8").splitlines()
PYTHONS = interpreters.find()
MIB = 1 << 20


def line_of(text):
    found = [number for number, line in enumerate(SOURCE, 1) if text in line]
    assert len(found) == 1, (text, found)
    return found[0]


def name(minor, qualified):
    return qualified if minor >= 11 else qualified.rpartition(".")[2]


def expected(minor):
    """MiB of an allocation -> its frames from the caller of allocate() outwards, as far as they are this program's."""
    inlined = [] if minor >= 12 else [(name(minor, "Model.forward.<locals>.<listcomp>"), line_of("allocate(16)"))]
    forward = [(name(minor, "Model.forward"), line_of("allocate(16)"))]
    kept = line_of("kept = [")
    rows = {
        16: [*inlined, *forward, ("main", kept)],
        8: [("generator", line_of("yield allocate(8)")), ("main", kept)],
        4: [("coroutine", line_of("return allocate(4)")), ("run", line_of("coroutine.send")), ("main", kept)],
        2: [("forward_é", 4), ("generated", line_of('return names["')), ("main", kept)],
        1: [(name(minor, "main.<locals>.<lambda>"), line_of("functools.reduce(")), ("main", line_of("functools.reduce("))],
        64: [(name(minor, "main.<locals>.threaded"), line_of("allocate(64)"))],
        32: [("deep", line_of("allocate(32)"))] * 450,
    }
    end = SOURCE.index("main()") + 1
    return {mib: rows[mib] + [("<module>", end)] if ("main" in dict(rows[mib])) else rows[mib] for mib in rows}


class PythonTest(hosts_test.HostTest):
    def peak(self):
        command = [str(hosts_test.BUILD / "bin" / "gpumemshim"), "peak", "--json", "--measure", "total", str(self.the_trace())]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def frames_by_size(self):
        """MiB of one allocation -> (Python frames, native ones in front of them, native ones behind)."""
        found = {}
        for stack in self.peak()["stacks"]:
            kinds = [frame["python"] for frame in stack["frames"]]
            python = [(frame["function"], frame["line"]) for frame in stack["frames"] if frame["python"]]
            first = kinds.index(True) if python else len(kinds)
            found[stack["bytes"] // stack["count"] // MIB] = (python, first, len(kinds) - first - len(python))
        return found

    def run_python(self, *command, **more):
        return subprocess.run(command, cwd=self.folder, env=self.environment(**more), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


class EachInterpreter(PythonTest):
    def check(self, python):
        done = self.run_python(python.path, str(PROGRAM))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = self.frames_by_size()
        for mib, rows in expected(python.minor).items():
            with self.subTest(python=python.path, mib=mib):
                got, native, behind = found[mib]
                self.assertEqual(got[0][0], "call")
                self.assertEqual(got[1], ("allocate", line_of('call("cuMemAlloc_v2"')))
                self.assertEqual(got[2 : 2 + len(rows)], rows)
                self.assertGreater(native, 0)  # ctypes
                self.assertEqual(behind, rows[0][0] == "deep")  # where the stack was cut is said behind it
        report = self.report()
        self.assertEqual(report["losses"]["truncated_stacks"], 1)  # deep()
        self.assertEqual(report["losses"]["unread_python_frames"], 0)
        self.assertNotIn("python_frames", report["process"]["versions"])

    def test_names_the_lines(self):
        self.assertTrue(PYTHONS)
        for python in PYTHONS:
            print(f"  {python.path}: CPython {python.version}{', debug build' if python.debug else ''}", flush=True)
            self.check(python)
            for trace in self.traces():
                trace.unlink()
        print("  not found here, so not tested:", ", ".join(interpreters.absent(PYTHONS)) or "none")

    def test_doctor_knows_it(self):
        for python in PYTHONS:
            done = self.run_python(str(hosts_test.BUILD / "bin" / "gpumemshim"), "doctor", "--json", "--", python.path, "x.py", preload=False)
            (finding,) = [check for check in json.loads(done.stdout)["findings"] if check["check"] == "python"]
            self.assertEqual(finding["health"], "ok", finding)


class Embedded(PythonTest):
    def embed(self, python, visibility):
        ask = "import sysconfig as s, os; print(os.path.join(s.get_config_var('LIBDIR') or '', s.get_config_var('INSTSONAME') or ''))"
        library = subprocess.run([python.path, "-c", ask], capture_output=True, text=True).stdout.strip()
        if not library.endswith(".so.1.0") or not os.path.exists(library):
            return False
        done = self.run_host("host_embeds", library, python.prefix, visibility)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = self.frames_by_size()
        self.assertEqual(found[16][0], [("embedded", 2), ("Within", 5), ("<module>", 4)])
        for without in (1, 2, 4):  # before Python, and between and after its lives
            self.assertEqual(found[without][0], [])
        for trace in self.traces():
            trace.unlink()
        return True

    def test_in_a_program_that_loads_it_late(self):
        tested = [python.version for python in PYTHONS for visibility in ("global", "local") if self.embed(python, visibility)]
        print("  embedded:", ", ".join(tested) or "no interpreter here has a shared library")


class Refused(PythonTest):
    REASONS = {
        "3.99.0 (main)": "this version of Python is not known",
        "3.14.0b2 (main)": "this version of Python is not known",
        "3.13.2 experimental free-threading build (main)": "free-threaded build of Python",
        "3.11.13 (main) [PyPy 7.3.20]": "not CPython",
        "3.14.0 (main)": "this Python has no table of its offsets (_Py_DebugOffsets)",
    }

    def test_the_trace_says_why(self):
        for version, reason in self.REASONS.items():
            done = self.run_host("host_odd_python", version)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = self.report()
            self.assertEqual(report["process"]["versions"]["python_frames"], reason)
            self.assertIn(f"Stacks lack Python frames: {reason}.", report["notes"])
            self.assertEqual(self.peak()["count"], 1)
            self.traces()[0].unlink()

    def test_doctor_says_it_before(self):
        for answer, words in {
            "cpython 3 13 0 final 1 0": "a free-threaded build",
            "cpython 3 14 0 beta 0 0": "a pre-release",
            "cpython 3 12 1 final 0 1": "built with Py_TRACE_REFS",
            "cpython 3 8 18 final 0 0": "only CPython 3.9 to 3.15 are known",
            "pypy 3 11 13 final 0 0": "not CPython",
        }.items():
            script = self.folder / "python-odd"
            script.write_text(f"#!/bin/sh\necho {answer}\n", encoding="utf-8")
            script.chmod(0o755)
            done = self.run_python(str(hosts_test.BUILD / "bin" / "gpumemshim"), "doctor", "--json", "--", str(script), preload=False)
            (finding,) = [check for check in json.loads(done.stdout)["findings"] if check["check"] == "python"]
            self.assertIn(words, json.dumps(finding))
            self.assertNotEqual(finding["health"], "ok")


if __name__ == "__main__":
    hosts_test.main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Python linked into a C++ program: found and walked where the functions of its C API are dynamic symbols of the program, and said where not. Builds a
program for each interpreter that has a libpythonX.Y.a.

    CXX=g++ python tests/hosts/embeds_static_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import pathlib
import subprocess
import sys

import hosts_test
import python_test

SOURCE = pathlib.Path(__file__).resolve().with_name("embeds_static_host.cc")
COMPILER = os.environ.get("CXX", "c++")
ASK = """
import os, sysconfig, json
get = sysconfig.get_config_var
archives = [os.path.join(folder or "", name or "") for folder in (get("LIBPL"), get("LIBDIR")) for name in (get("LIBRARY"),)]
print(json.dumps({"archives": archives, "include": sysconfig.get_path("include"), "libraries": f"{get('LIBS')} {get('MODLIBS')} {get('SYSLIBS')}".split()}))
"""


def parts_of(python):
    """What to build with, or None where this interpreter has no library to link."""
    done = subprocess.run([python.path, "-c", ASK], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    parts = json.loads(done.stdout)
    archives = [path for path in parts["archives"] if path.endswith(".a") and os.path.exists(path)]
    if not archives or not os.path.exists(os.path.join(parts["include"], "Python.h")):
        return None
    return archives[0], parts["include"], parts["libraries"]


class Static(python_test.PythonTest):
    def build(self, parts, *options):
        """The program, or the reason why it cannot be built here."""
        archive, include, libraries = parts
        program = self.folder / "host"
        # The archives are not always position-independent.
        command = [COMPILER, "-O2", "-g", "-std=c++17", "-no-pie", f"-I{include}", str(SOURCE), archive, *libraries, "-lm", "-ldl", "-lpthread", *options, "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        complaints = [line for line in done.stderr.splitlines() if "undefined reference" in line or "cannot find" in line]
        return None if done.returncode == 0 else (complaints or done.stderr.splitlines() or ["the linker failed"])[0]

    def run_it(self, python):
        for trace in self.traces():
            trace.unlink()
        done = subprocess.run([str(self.folder / "host"), python.prefix], cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.frames_by_size()

    def test_found_and_walked(self):
        tested, left_out = [], []
        for python in python_test.PYTHONS:
            parts = parts_of(python)
            reason = "no libpython.a or no Python.h" if parts is None else self.build(parts, "-rdynamic")
            if reason:
                left_out.append(f"{python.version} ({reason})")
                continue
            with self.subTest(python=python.path):
                found = self.run_it(python)
                python_frames, native, behind = found[16]
                method = "Within.method" if python.minor >= 11 else "method"
                self.assertEqual(python_frames, [("inner", 2), (method, 6), ("<module>", 8)])
                self.assertGreater(native, 0)
                self.assertEqual(behind, 0)
                for without in (1, 2):  # before Python's life and after it
                    self.assertEqual(found[without][0], [])
                tested.append(python.version)
        print("  linked statically:", ", ".join(tested) or "none", "; left out:", ", ".join(left_out) or "none")

    def test_without_dynamic_symbols_native_frames_alone(self):
        """The stated limit (docs/stacks.md): whole native stacks, and nothing that is wrong."""
        for python in python_test.PYTHONS:
            parts = parts_of(python)
            if parts is None or self.build(parts):
                continue
            python_frames, native, _ = self.run_it(python)[16]
            self.assertEqual(python_frames, [])
            self.assertGreater(native, 5)
            return
        print("  skipped: no interpreter here has a library to link")


if __name__ == "__main__":
    hosts_test.main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""C++ exceptions of programs with the recorder in front: thrown, caught and passed on as without it, by the same library, whichever unwinder it uses.

    python tests/hosts/throws_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import pathlib
import re
import subprocess
import sys

import hosts_test

UNWINDERS = ("libunwind", "libgcc", "fp", "none")
THROWS = "libhost_throws.so"


class ThrowsTest(hosts_test.HostTest):
    def peak(self):
        command = [str(hosts_test.BUILD / "bin" / "gpumemshim"), "peak", "--json", "--measure", "total", "--by", "stack", str(self.the_trace())]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def stacks(self):
        return [[frame["function"] for frame in stack["frames"]] for stack in self.peak()["stacks"]]

    def forget(self):
        for trace in self.traces():
            trace.unlink()

    def assert_unwound_by(self, unwinder):
        self.assertEqual(self.report()["process"]["versions"].get("unwinder"), unwinder)


class InAProgram(ThrowsTest):
    LINES = {
        "plain": "thrown, 31 frames left",
        "through C": "thrown, 31 frames left",
        "nested": "7, 31 frames left",
        "again": "thrown, 31 frames left",
        "to another thread": "thrown, 31 frames left",
        "no memory": "std::bad_alloc, 0 frames left",
        "in a signal handler": "thrown, 31 frames left",
        "out of a signal handler": "thrown, 31 frames left",
        "in a handler on its own stack": "thrown, 31 frames left",
        "pthread_exit": "5, 1 frames left",
        "pthread_cancel": "cancelled, 1 frames left",
        "from a library": "caught within, thrown, 0 frames left",
        "thrown by": "libgcc_s.so.1, 0 frames left",
    }

    def test_every_way_to_throw_is_as_without_us(self):
        library = str(hosts_test.HOSTS / THROWS)
        bare = self.run_host("throws_host", library, preload=False)
        self.assertEqual(bare.returncode, 0, bare.stderr)
        self.assertEqual(bare.stdout.splitlines(), 3 * [f"{case}: {line}" for case, line in self.LINES.items()])
        for unwinder in UNWINDERS:
            with self.subTest(unwinder=unwinder):
                self.forget()
                done = self.run_host("throws_host", library, GPUMEMSHIM_UNWINDER=unwinder)
                self.assertEqual((done.returncode, done.stdout), (0, bare.stdout), done.stderr)
                self.assert_unwound_by(unwinder)
                if unwinder in ("libunwind", "libgcc"):
                    self.assert_stacks()

    def assert_stacks(self):
        """Before the throw, in a destructor that the unwinding runs, and in the handler."""
        stacks = [self.own(names) for names in self.stacks()]
        for caller in ("Throw", "~Frame", "Caught"):
            self.assertTrue(any(caller in stack[2] and "main" in stack for stack in stacks), (caller, stacks))

    @staticmethod
    def own(names):
        """The stack from the program's Allocate on, with short names; behind it enough that an index is always there."""
        short = [re.sub(r"\(anonymous namespace\)::|<.*|\(.*", "", name.replace("(anonymous namespace)::", "")) for name in names]
        start = short.index("Allocate") if "Allocate" in short else len(short)
        return ["", *short[start:], "", ""]


class InPython(ThrowsTest):
    """Python does not link C++: whoever comes first with the unwinder's symbols gets the exceptions of every C++ module."""

    SCRIPT = """
import ctypes, sys
runtime = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
def allocate(depth):
    assert runtime.cudaMalloc(ctypes.byref(memory), 1 << 20) == 0
    return depth
allocate(0)
throws = ctypes.CDLL(sys.argv[1])
for depth in range(40):
    assert throws.ThrowAndCatch(depth) == 1
    assert throws.CallThrowCall(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(allocate), depth) == depth + 1
assert runtime.cudaFree(memory) == 0
"""
    ALLOCATIONS = 81

    def bindings(self, preload, **more):
        """(Binder, symbol) -> the library that this symbol of the unwinder's is bound to."""
        out = self.folder / f"bindings-{preload}-{more.get('GPUMEMSHIM_UNWINDER')}"
        environment = self.environment(preload, LD_DEBUG="bindings", LD_DEBUG_OUTPUT=str(out), **more)
        command = [sys.executable, "-c", self.SCRIPT, str(hosts_test.HOSTS / THROWS)]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {}
        for file in self.folder.glob(out.name + "*"):
            for binder, bound, symbol in re.findall(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(_Unwind_\w+)'", file.read_text()):
                found[pathlib.Path(binder).name, symbol] = pathlib.Path(bound).name
        return found

    def test_exceptions_bind_as_without_us(self):
        bare = self.bindings(False)
        self.assertIn(("libstdc++.so.6", "_Unwind_RaiseException"), bare)
        for unwinder in UNWINDERS:
            with self.subTest(unwinder=unwinder):
                self.forget()
                ours = self.bindings(True, GPUMEMSHIM_UNWINDER=unwinder)
                self.assertEqual({key: bound for key, bound in ours.items() if key in bare}, bare)
                self.assert_unwound_by(unwinder)
                self.assertEqual(self.report()["events"]["runtime"], self.ALLOCATIONS + 1)
                # From Python through C++ into Python again.
                for stack in self.stacks():
                    self.assertIn("<module>", stack)


if __name__ == "__main__":
    hosts_test.main()

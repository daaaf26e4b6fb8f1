# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""CPython's own tests, of this machine's interpreter: they end under the recorder as they end without it, in processes that never use CUDA and in one that
does and is recorded meanwhile.

    python tests/e2e/cpython_test.py --build build/release [--module test_fork1] [--python PYTHON]

Exit code 77 where no interpreter has its tests (some systems package them apart).
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import same_outcomes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import interpreters  # noqa: E402

# Those that look at processes, descriptors, signals, threads, frames and memory: what a preload could disturb.
MODULES = """test_subprocess test_os test_posix test_signal test_threading test_thread test_fork1 test_faulthandler test_ctypes test_mmap test_gc test_sys
test_sys_settrace test_sys_setprofile test_resource test_select test_selectors test_fcntl test_tempfile test_atexit test_import test_exceptions test_threadsignals test_wait4""".split()
SKIPPED = 77
LIMIT_S = 900
# The tests' own main, in a process that has allocated on a device.
IN_USE = """
import ctypes, runpy, sys
runtime, address = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0
sys.argv = sys.argv[1:]
runpy.run_module("test", run_name="__main__", alter_sys=True)
"""


class Modules:
    def __init__(self, python, build, in_use):
        self.python, self.build, self.in_use = python, build.resolve(), in_use
        self.traces = 0

    def environment(self, folder, recorded):
        base = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "SIMCUDA_", "LD_", "PYTHON"))}
        base.update(LD_LIBRARY_PATH=str(self.build / "lib" / "simcuda"), HOME=folder)
        if recorded:
            base.update(LD_PRELOAD=str(self.build / "lib" / "libgpumemshim.so"), GPUMEMSHIM_QUIET="1", GPUMEMSHIM_OUTPUT=f"{folder}/run.gmtrace")
        return base

    def run(self, module, recorded):
        """{test: outcome}; what regrtest says of the module is one of them."""
        with tempfile.TemporaryDirectory(prefix="gpumemshim-cpython-") as folder:
            start = ["-c", IN_USE, "test"] if self.in_use else ["-m", "test"]
            command = [self.python, *start, "--junit-xml", f"{folder}/results.xml", module]
            try:
                done = subprocess.run(command, cwd=folder, env=self.environment(folder, recorded), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S)
                ended = f"exit {done.returncode}"
            except subprocess.TimeoutExpired:
                ended = f"no end after {LIMIT_S} s"
            self.traces += len(list(pathlib.Path(folder).glob("*.gmtrace")))
            results = pathlib.Path(folder) / "results.xml"
            return {module: ended, **(outcomes(results) if results.exists() else {})}


def outcomes(path):
    found = {}
    for case in xml.parse(path).getroot().iter("testcase"):
        kind = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        found[case.get("name")] = kind
    return found


def with_its_tests(asked):
    for python in [asked] if asked else [each.path for each in interpreters.find()][::-1]:
        if subprocess.run([python, "-c", "import test.libregrtest, test.test_os"], capture_output=True).returncode == 0:
            return python
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", help="an interpreter that has its tests")
    parser.add_argument("--module", action="append", help="only these")
    arguments = parser.parse_args()
    python = with_its_tests(arguments.python)
    if python is None:
        print("skipped: no interpreter here has its tests (on Debian: libpython3-testsuite). Name one: --python")
        return SKIPPED
    ok = True
    for in_use in (False, True):
        modules = Modules(python, arguments.build, in_use)
        print(f"{python}, {'in a process that uses CUDA' if in_use else 'without CUDA'}", flush=True)
        ok = same_outcomes.report(same_outcomes.compare(modules.run, arguments.module or MODULES)) and ok
        if (modules.traces > 0) != in_use:
            print(f"{modules.traces} traces were written, {'at least one' if in_use else 'none'} was expected")
            ok = False
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

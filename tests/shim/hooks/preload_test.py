# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs interception_host under the preload and looks at what it says, writes and leaves behind.

usage: preload_test.py <libgpumemshim.so> <folder with the host> <folder with the fake CUDA> [unittest arguments]
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

SHIM, HOSTS, FAKE = (os.path.abspath(path) for path in sys.argv[1:4])
HOST = os.path.join(HOSTS, "interception_host")


class Preload(unittest.TestCase):
    def run_host(self, what, **environment):
        with tempfile.TemporaryDirectory() as place:
            keep = {name: value for name, value in os.environ.items() if not name.startswith("GPUMEMSHIM_")}
            rings = set(glob.glob("/dev/shm/gpumemshim.*"))
            done = subprocess.run([HOST, what], cwd=place, capture_output=True, text=True, timeout=60,
                                  env={**keep, "LD_PRELOAD": SHIM, "LD_LIBRARY_PATH": FAKE, **environment})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.files = {name: os.stat(os.path.join(place, name)) for name in os.listdir(place)}
            self.err = done.stderr
            mine = [path for path in set(glob.glob("/dev/shm/gpumemshim.*")) - rings
                    if f".{os.path.basename(path).split('.')[1]}." in "".join(self.files)]
            self.assertEqual(mine, [], "the ring's file was left behind")
        return [tuple(int(number.replace(",", "")) for number in row)
                for row in re.findall(r"gpumemshim: ([\d,]+) events? \(([\d,]+) torch, ([\d,]+) runtime, ([\d,]+) driver\), "
                                      r"([\d,]+) lost", self.err)]

    def test_without_cuda_nothing_happens(self):
        self.assertEqual(self.run_host("nothing"), [])
        self.assertEqual((self.err, self.files), ("", {}))

    def test_lookups_leave_nothing(self):
        self.assertEqual(self.run_host("lookups"), [])
        self.assertEqual((self.err, self.files), ("", {}))

    def test_proc_address(self):
        self.run_host("proc_address")

    def test_calls(self):
        self.assertEqual(self.run_host("calls"), [(6, 0, 0, 6, 0)])
        (name, status), = self.files.items()
        self.assertRegex(name, r"^gpumemshim\.interception_host\.\d+\.gmtrace$")
        self.assertEqual(status.st_mode & 0o777, 0o600)
        self.assertEqual(self.err.count("\n"), 1)
        self.assertIn(f"in ./{name} (", self.err)
        self.assertTrue(self.err.endswith(f"Next: gpumemshim report {name}\n"), self.err)

    def test_runtime_loaded_locally_is_counted_once(self):
        self.assertEqual(self.run_host("runtime"), [(20, 0, 20, 0, 0)])

    def test_each_of_two_runtimes_gets_its_own_calls(self):
        self.assertEqual(self.run_host("runtimes"), [(16, 0, 16, 0, 0)])

    def test_threads(self):
        self.assertEqual(self.run_host("threads"), [(16000, 0, 0, 16000, 0)])

    def test_forked_child_is_silent(self):
        self.assertEqual(self.run_host("fork"), [(12, 0, 0, 12, 0)])
        self.assertEqual(len(self.files), 1)

    def test_forked_child_with_its_own_cuda(self):
        self.assertEqual(self.run_host("fork_then_init"), [(6, 0, 0, 6, 0), (6, 0, 0, 6, 0)])
        self.assertEqual(len(self.files), 2)

    def test_exceptions_of_the_host(self):
        for unwinder in ("libunwind", "libgcc", "fp", "none"):
            self.run_host("exceptions", GPUMEMSHIM_UNWINDER=unwinder)

    def test_settings(self):
        self.assertEqual(self.run_host("calls", GPUMEMSHIM_QUIET="1"), [])
        self.assertEqual((self.err, len(self.files)), ("", 1))
        self.run_host("calls", GPUMEMSHIM_OUTPUT="%n-%r.gmtrace", RANK="3")
        self.assertEqual(list(self.files), ["interception_host-3.gmtrace"])
        self.run_host("calls", GPUMEMSHIM_DISABLE="1")
        self.assertEqual((self.err, self.files), ("", {}))

    def test_exceptions_bind_as_without_us(self):
        def binding(**environment):
            with tempfile.TemporaryDirectory() as place:
                done = subprocess.run([HOST, "exceptions"], cwd=place, capture_output=True, text=True, timeout=60,
                                      env={**os.environ, "LD_LIBRARY_PATH": FAKE, "LD_DEBUG": "bindings",
                                           "GPUMEMSHIM_QUIET": "1", **environment})
            return sorted({os.path.basename(path) for path in re.findall(
                r"binding file \S*libstdc\+\+\S* \[0\] to (\S+) \[0\]: normal symbol `_Unwind_RaiseException'",
                done.stderr)})
        self.assertEqual(binding(LD_PRELOAD=SHIM), binding())
        self.assertEqual(binding(LD_PRELOAD=SHIM), ["libgcc_s.so.1"])

    def test_exports_and_needed(self):
        table = subprocess.run(["nm", "-D", "--defined-only", SHIM], capture_output=True, text=True, check=True).stdout
        for row in table.splitlines():
            name = row.split()[-1]
            self.assertRegex(name, r"^(dlsym|dlvsym|_exit|_Exit|__cxa_at_quick_exit|__asan_default_options|InitializeInjection\w*|gpumemshim_\w*|nvtx\w*|ncclComm(Init\w+|Split)|cu[A-Z]\w*|cuda[A-Z]\w*|_ZN3c1027reportMemoryUsageToProfiler\w*|"
                                   r"_ZN2at15sequence_number17get_and_incrementEv|_ZN2at4_ops13record_stream4call\w*|_ZN2at4cuda7MemPoolC1\w*|_ZN3c104cuda17getStreamFromPool\w*|_ZNK2at10TensorBase8set_data\w*|_ZN5torch8autograd13SavedVariableC1\w*|"
                                   r"_ZN5torch8autograd4impl16grad_accumulator\w*|_ZN5torch8autograd6Engine17evaluate_function\w*|"
                                   r"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm|"
                                   r"_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig24roundup_power2_divisionsEm|"
                                   r"_ZN3c1025reportOutOfMemoryToProfiler\w*|_ZN3c1027reportOutOfMemoryToProfiler\w*)$")
        dynamic = subprocess.run(["readelf", "-dW", SHIM], capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic), ["libc.so.6"])
        self.assertRegex(dynamic, r"INIT_ARRAYSZ\)\s+8 ")  # crtbegin's frame_dummy and nothing else
        self.assertNotIn("TEXTREL", dynamic)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=1)

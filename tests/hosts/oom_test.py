# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs that run out of memory without PyTorch: what `gpumemshim oom` says of each is what CUDA told the program itself, and the report on standard
error (GPUMEMSHIM_OOM_REPORT) changes nothing that the program can see.

    python tests/hosts/oom_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import hosts_test
import truth

MIB = 1 << 20

PRELUDE = """
import ctypes, json, os, signal, sys, threading, time
runtime, driver = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20

def malloc(size):
    address = ctypes.c_void_p()
    return address if runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) == 0 else None

def info():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value

def say(**values):
    print(json.dumps(values), flush=True)
"""


class OomHost(hosts_test.HostTest):
    def command(self, script):
        return [sys.executable, "-c", PRELUDE + script]

    def settings(self, **more):
        return {"SIMCUDA_CAPACITY_MB": "512", "SIMCUDA_CTX_MB": "16", **more}

    def run_script(self, script, preload=True, exit_code=0, **more):
        done = subprocess.run(
            self.command(script), cwd=self.folder, env=self.environment(preload, **self.settings(**more)), capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL
        )
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return done

    def reported(self, script, **more):
        return truth.last_json_line(self.run_script(script, **more).stdout)

    def oom(self, *options):
        return json.loads(truth.run([self.setup.gpumem, "oom", "--json", *options, str(self.the_trace())], self.setup))

    def oom_text(self):
        return truth.run([self.setup.gpumem, "oom", str(self.the_trace())], self.setup)

    def the_oom(self):
        ooms = self.oom()["ooms"]
        self.assertEqual(len(ooms), 1, ooms)
        return ooms[0]


class WhatCudaSaid(OomHost):
    def compare(self, oom, reported, requested, total_bytes, device=0):
        free, total = reported["info"]
        self.assertTrue(oom["final"])
        self.assertEqual(oom["requested_bytes"], requested)
        self.assertEqual(oom["device"], device)
        self.assertEqual(oom["device_free_bytes"], free)
        self.assertEqual(oom["capacity_bytes"], total)
        self.assertEqual(oom["values"]["total_bytes"], total_bytes)
        self.assertEqual(oom["unseen_bytes"], total - free - total_bytes)
        self.assertEqual(oom["would_have_fit_bytes"], min(free // (2 * MIB) * 2 * MIB, requested - 1))

    def test_cuda_malloc(self):
        reported = self.reported("kept = [malloc(16 * MIB) for _ in range(10)]\nassert malloc(400 * MIB) is None\nsay(info=info())")
        oom = self.the_oom()
        self.compare(oom, reported, 400 * MIB, 160 * MIB)
        self.assertEqual((oom["api"], oom["layer"], oom["result"]), ("cudaMalloc", "runtime", 2))
        self.assertEqual([step["step"] for step in oom["steps"]], ["failed"])
        self.assertEqual(oom["live"]["bytes"], 160 * MIB)
        # The largest that would have fitted did fit.
        fits = self.reported(f"kept = [malloc(16 * MIB) for _ in range(10)]\nsay(ok=bool(malloc({oom['would_have_fit_bytes']})))", preload=False)
        self.assertTrue(fits["ok"])

    def test_the_second_device(self):
        reported = self.reported(
            "runtime.cudaSetDevice(1)\nkept = malloc(8 * MIB)\nassert malloc(600 * MIB) is None\nsay(info=info())", SIMCUDA_DEVICES="2"
        )
        self.compare(self.the_oom(), reported, 600 * MIB, 8 * MIB, device=1)

    def test_cu_mem_create(self):
        reported = self.reported(
            """
class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("meta", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]
kept = malloc(8 * MIB)
handle = ctypes.c_ulonglong()
wanted = Properties(1, 0, Location(1, 0))
assert driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(600 * MIB), ctypes.byref(wanted), ctypes.c_ulonglong(0)) == 2
say(info=info())
"""
        )
        oom = self.the_oom()
        self.compare(oom, reported, 600 * MIB, 8 * MIB)
        self.assertEqual((oom["api"], oom["layer"]), ("cuMemCreate", "driver"))

    def test_a_pool(self):
        reported = self.reported(
            """
pool, held = ctypes.c_void_p(), ctypes.c_uint64(1 << 40)
assert runtime.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
assert runtime.cudaMemPoolSetAttribute(pool, 4, ctypes.byref(held)) == 0  # the release threshold
kept, gone, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert runtime.cudaMallocAsync(ctypes.byref(kept), ctypes.c_size_t(40 * MIB), None) == 0
assert runtime.cudaMallocAsync(ctypes.byref(gone), ctypes.c_size_t(60 * MIB), None) == 0
assert runtime.cudaFreeAsync(gone, None) == 0
assert runtime.cudaMallocAsync(ctypes.byref(address), ctypes.c_size_t(600 * MIB), None) == 2
values = []
for attribute in (7, 5):  # used, reserved
    value = ctypes.c_uint64()
    assert runtime.cudaMemPoolGetAttribute(pool, attribute, ctypes.byref(value)) == 0
    values.append(value.value)
say(info=info(), pool=values)
"""
        )
        oom = self.the_oom()
        free, total = reported["info"]
        used, reserved = reported["pool"]
        self.assertEqual((oom["pool_used_bytes"], oom["pool_reserved_bytes"]), (used, reserved))
        self.assertEqual(oom["device_free_bytes"], free)
        self.assertEqual(oom["values"]["total_bytes"], 40 * MIB)
        self.assertEqual(oom["unseen_bytes"], total - free - 40 * MIB - (reserved - used))
        self.assertIn("idle in the stream-ordered pool", self.oom_text())

    def test_pinned_host_memory(self):
        self.run_script(
            "kept = malloc(MIB)\naddress = ctypes.c_void_p()\nassert runtime.cudaHostAlloc(ctypes.byref(address), ctypes.c_size_t(1 << 20), 0) == 2",
            SIMCUDA_FAIL_ALLOC="2",
        )
        oom = self.the_oom()
        self.assertEqual(oom["device"], -1)
        self.assertIsNone(oom["device_free_bytes"])
        self.assertIn("locked memory", oom["cause"])
        self.assertIn("OUT OF MEMORY  the host at", self.oom_text())

    def test_on_a_thread(self):
        reported = self.reported(
            "kept = malloc(8 * MIB)\n"
            "thread = threading.Thread(target=lambda: malloc(600 * MIB))\nthread.start()\nthread.join()\nsay(info=info())"
        )
        self.compare(self.the_oom(), reported, 600 * MIB, 8 * MIB)


class Chains(OomHost):
    def test_given_back_and_tried_again(self):
        reported = self.reported(
            """
kept = [malloc(64 * MIB) for _ in range(7)]
assert malloc(128 * MIB) is None
before = info()[0]
for address in kept[:2]:
    runtime.cudaFree(address)
assert malloc(128 * MIB)
say(before=before)
"""
        )
        answer = self.oom()
        (oom,), (retries,) = answer["ooms"], answer["served_retries"]
        self.assertFalse(oom["final"])
        self.assertEqual([(step["step"], step["bytes"], step["count"]) for step in oom["steps"]], [("failed", 128 * MIB, 1), ("released", 128 * MIB, 2), ("served", 128 * MIB, 1)])
        self.assertEqual(oom["steps"][0]["device_free_bytes"], reported["before"])
        self.assertEqual(oom["released_bytes"], 128 * MIB)
        self.assertEqual((retries["count"], retries["released_bytes"]), (1, 128 * MIB))
        self.assertEqual(subprocess.run([self.setup.gpumem, "oom", "--check", str(self.the_trace())], capture_output=True).returncode, 0)

    def test_a_search_is_one_group(self):
        self.run_script(
            "def search():\n    for size in range(1000, 980, -1):\n        assert malloc(size * MIB) is None\nkept = malloc(MIB)\nsearch()"
        )
        ooms = self.oom()["ooms"]
        self.assertEqual([oom["requested_bytes"] for oom in ooms], [size * MIB for size in range(1000, 980, -1)])
        text = self.oom_text()
        self.assertIn("19 requests for 982 MiB to 1000 MiB", text)
        self.assertIn("asked for 981 MiB", text)
        self.assertEqual(subprocess.run([self.setup.gpumem, "oom", "--check", str(self.the_trace())], capture_output=True).returncode, 1)

    def test_nothing_failed(self):
        self.run_script("kept = malloc(MIB)")
        self.assertEqual(self.oom()["ooms"], [])
        self.assertIn("No request for memory failed", self.oom_text())


class Killed(OomHost):
    SCRIPT = "kept = malloc(64 * MIB)\nassert malloc(600 * MIB) is None\n"

    def test_at_once(self):
        self.run_script("kept = malloc(64 * MIB)\ntime.sleep(0.3)\nassert malloc(600 * MIB) is None\nos.kill(os.getpid(), signal.SIGKILL)", exit_code=-signal.SIGKILL)
        oom = self.the_oom()
        self.assertEqual(oom["requested_bytes"], 600 * MIB)
        self.assertIsNotNone(oom["device_free_bytes"])

    def test_after_a_pass_without_a_ring_to_recover(self):
        self.run_script(self.SCRIPT + "time.sleep(0.5)\nos.kill(os.getpid(), signal.SIGKILL)", exit_code=-signal.SIGKILL, GPUMEMSHIM_RING_DIRECTORY="none")
        self.assertEqual(self.the_oom()["requested_bytes"], 600 * MIB)


class Report(OomHost):
    FAIL = "kept = malloc(64 * MIB)\nassert malloc(600 * MIB) is None\n"
    HEADING = "OUT OF MEMORY  GPU 0"

    def compare_with_bare(self, script, exit_code=0, **more):
        """The program sees nothing of the report. Returns standard error with us."""
        bare = self.run_script(script, preload=False, exit_code=exit_code)
        done = self.run_script(script, exit_code=exit_code, GPUMEMSHIM_OOM_REPORT="1", **more)
        self.assertEqual(done.stdout, bare.stdout)
        return done.stderr

    def stub(self, text):
        """A stub of the analyzer."""
        path = self.folder / "stub"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return str(path)

    def test_between_the_traceback_and_the_last_line(self):
        error = self.compare_with_bare(self.FAIL + "raise MemoryError('of the GPU')", exit_code=1)
        self.assertLess(error.index("MemoryError: of the GPU"), error.index(self.HEADING))
        self.assertIn("600 MiB", error)
        last = error.splitlines()[-1]
        self.assertRegex(last, r"^gpumemshim: \d+ events")

    def test_while_the_program_goes_on(self):
        script = self.FAIL + "time.sleep(3)\nprint('still here', file=sys.stderr)"
        error = self.compare_with_bare(script)
        self.assertLess(error.index(self.HEADING), error.index("still here"))
        self.assertEqual(error.count(self.HEADING), 1)

    def test_a_search_is_reported_twice_at_most(self):
        error = self.compare_with_bare("kept = malloc(MIB)\nfor size in range(1000, 900, -1):\n    assert malloc(size * MIB) is None\n    time.sleep(0.01)")
        self.assertIn(error.count(self.HEADING), (1, 2))
        self.assertIn("asked for 901 MiB", error)

    def test_no_failure_no_report(self):
        self.assertNotIn("MEMORY", self.compare_with_bare("kept = malloc(MIB)"))

    CHILDREN = """
signals = []
signal.signal(signal.SIGCHLD, lambda *_: signals.append(1))
if {subreaper}:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
kept = malloc(MIB)
assert malloc(600 * MIB) is None
own = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1")
reaped = []
while True:
    try:
        reaped.append(os.waitpid(-1, 0)[0] == own)
    except ChildProcessError:
        break
def parent(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0
for _ in range(1000):
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == os.getpid()]
    if not left:
        break
    time.sleep(0.02)
print(reaped, len(signals), left, flush=True)
"""

    def test_the_host_sees_no_child(self):
        for subreaper in (False, True):
            with self.subTest(subreaper=subreaper):
                for trace in self.traces():
                    trace.unlink()
                error = self.compare_with_bare(self.CHILDREN.replace("{subreaper}", str(subreaper)))
                self.assertEqual(error.count(self.HEADING), 1)

    def test_the_analyzer_inherits_nothing(self):
        stub = self.stub("env | grep -c -e LD_PRELOAD -e GPUMEMSHIM -e SECRET\nls /proc/self/fd | tr '\\n' ' '\necho end of descriptors\nkill -l $(($(awk '/SigBlk/ {print $2}' /proc/self/status) + 0)) 2> /dev/null; grep SigBlk /proc/self/status\n")
        error = self.compare_with_bare("held = os.open('/dev/null', os.O_RDONLY)\nos.set_inheritable(held, True)\n" + self.FAIL, GPUMEMSHIM_PROGRAM=stub, SECRET="x")
        lines = error.splitlines()
        self.assertEqual(lines[0], "0", error)
        self.assertRegex(error, r"(?m)^0 1 2 3 end of descriptors$")  # 3 is the listing itself
        self.assertIn("SigBlk:\t0000000000000000", error)

    def test_no_analyzer_is_said_once(self):
        error = self.compare_with_bare(self.FAIL + "time.sleep(0.5)\n" + self.FAIL, GPUMEMSHIM_PROGRAM="/nowhere/gpumemshim")
        self.assertEqual(error.count("no report"), 1)

    def test_a_file_in_the_place_of_standard_error_stays_as_it_is(self):
        script = "os.dup2(os.open('data', os.O_RDWR | os.O_CREAT), 2)\n" + self.FAIL + "time.sleep(1)"
        # The library is set up at the first call, when descriptor 2 was still standard error.
        self.run_script("malloc(1)\n" + script, GPUMEMSHIM_OOM_REPORT="1", GPUMEMSHIM_QUIET="1")
        self.assertEqual((self.folder / "data").read_bytes(), b"")

    def test_nothing_outlives_a_killed_host(self):
        stub = self.stub(f"echo $$ > {self.folder}/pid\nexec sleep 100\n")
        host = subprocess.Popen(
            self.command(self.FAIL + "time.sleep(100)"), cwd=self.folder, stderr=subprocess.DEVNULL,
            env=self.environment(**self.settings(GPUMEMSHIM_OOM_REPORT="1", GPUMEMSHIM_PROGRAM=stub)),
        )
        with host:
            pid = self.wait_for(lambda: (self.folder / "pid").exists() and (self.folder / "pid").read_text().strip())
            host.send_signal(signal.SIGKILL)
        self.wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists() or pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z")

    def wait_for(self, condition):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(0.02)
        self.fail("waited in vain")


if __name__ == "__main__":
    hosts_test.main()

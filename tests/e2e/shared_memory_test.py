# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""DataLoaders that need nearly all of a container's 64 MiB of /dev/shm do what they do without the recorder, and leave nothing there.

    python tests/e2e/shared_memory_test.py --build build/release
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "shared_memory.py"
SHARED_MIB = 64
WORKERS = 3


def can_mount():
    done = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True)
    return os.geteuid() == 0 and done.returncode == 0


@unittest.skipUnless(can_mount(), "no right to make a mount namespace")
class SmallSharedMemory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-shared-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_job(self, method, recorded):
        """Code, what it printed, MiB of /dev/shm in use when the queues were full, and what was left there."""
        script = f'mount -t tmpfs -o size={SHARED_MIB}M none /dev/shm; "$@"; code=$?; ls /dev/shm > {self.folder}/left; exit $code'
        prefix = [SETUP.gpumem, "run", "--"] if recorded else []
        environment = {**truth.environment_of(truth.Case("none"), SETUP), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", *prefix, *SETUP.command(PROGRAM), method],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SETUP.timeout_s, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        used = [int(line) for line in done.stderr.splitlines() if line.isdigit()]
        self.assertEqual((done.returncode, len(used)), (0, 1), done.stderr)
        return done.stdout, used[0], (self.folder / "left").read_text()

    def check(self, method, traces):
        bare_output, bare_used, _ = self.run_job(method, recorded=False)
        output, used, left = self.run_job(method, recorded=True)
        print(f"{method}: {bare_used} MiB in use bare, {used} MiB recorded", flush=True)
        self.assertGreater(bare_used, 40, "the test means to fill it")
        self.assertEqual(output, bare_output)
        self.assertLessEqual(used, bare_used + SHARED_MIB // 16)
        self.assertEqual(left, "")
        found = sorted(self.folder.glob("*.gmtrace"))
        self.assertEqual(len(found), traces, found)
        for trace in found:
            answer = truth.report(SETUP, trace)
            self.assertEqual((answer["losses"]["total"], answer["end_unknown"]), (0, False), trace)

    def test_fork(self):
        self.check("fork", 1)

    def test_spawn(self):
        self.check("spawn", 1 + WORKERS)

    def test_forkserver(self):
        self.check("forkserver", 1 + WORKERS)


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What rings take of /dev/shm, in a container's 64 MiB of it: the sum stays below its bound, nothing of the dead stays, and no event is lost by that.

    python tests/hosts/rings_test.py --build build/release --hosts build/release/tests/hosts
"""

import os
import pathlib
import signal
import subprocess
import time
import unittest

import hosts_test
import history
import processes_test
from places_test import can_mount

MIB = 1 << 20
SHARED_BYTES = 64 * MIB
RINGS_BYTES = SHARED_BYTES // 16  # all rings of a user together (docs/ring.md)
BEGINNING_BYTES = 512 << 10  # of one that was hardly used


@unittest.skipUnless(can_mount(), "no right to make a mount namespace")
class SmallSharedMemory(processes_test.ProcessTest):
    def environment(self, preload=True, **more):
        environment = super().environment(preload, **more)
        if "GPUMEMSHIM_RING_DIRECTORY" not in more:
            environment.pop("GPUMEMSHIM_RING_DIRECTORY", None)
        return environment

    def start(self, command, preload=True, **more):
        """`command` in a mount namespace with a small /dev/shm; what is left there in the end is listed in the file `left`."""
        environment = self.environment(preload, **more)
        names = ("LD_PRELOAD", "LD_LIBRARY_PATH")
        settings = [f"{name}={environment.pop(name)}" for name in names if name in environment]
        script = f'mount -t tmpfs -o size={SHARED_BYTES} none /dev/shm; env "$@"; code=$?; ls /dev/shm > {self.folder}/left; exit $code'
        return subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script, "sh", *settings, *map(str, command)],
            cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def look(self, shared):
        """Bytes of the rings there: that they have, and that they may take. One that nobody holds any more takes no more than it has."""
        taken = claimed = 0
        try:
            if os.stat(shared).st_dev == os.stat("/dev/shm").st_dev:
                return 0, 0  # it is not mounted yet
            rings = [entry.stat() for entry in os.scandir(shared) if entry.name.endswith(".ring")]
            held = {int(line.split(":")[-1].split()[0]) for line in pathlib.Path("/proc/locks").read_text().splitlines() if "FLOCK" in line}
            for status in rings:
                taken += status.st_blocks * 512
                claimed += status.st_size if status.st_ino in held else status.st_blocks * 512
        except OSError:
            pass  # it went while we looked
        return taken, claimed

    def finish(self, process):
        """Waits for it. Returns what it printed, its code, and the most that rings took meanwhile."""
        shared = pathlib.Path("/proc", str(process.pid), "root", "dev/shm")
        most_taken = most_claimed = 0
        deadline = time.monotonic() + 240
        while process.poll() is None:
            self.assertLess(time.monotonic(), deadline)
            taken, claimed = self.look(shared)
            most_taken, most_claimed = max(most_taken, taken), max(most_claimed, claimed)
            time.sleep(0.01)
        out, error = process.communicate()
        theirs = [line for line in error.splitlines() if not line.startswith("gpumemshim:")]
        return (process.returncode, out, theirs), most_taken, most_claimed

    def as_without_us(self, words, run=False, **more):
        """`run`: by `gpumemshim run` instead of a preload."""
        command = [hosts_test.HOSTS / "processes_host", *words.split()]
        bare, _, _ = self.finish(self.start(command, preload=False, SIMCUDA_LOG=""))
        done, taken, claimed = self.finish(self.start([self.setup.gpumem, "run", "--", *command] if run else command, preload=not run, **more))
        self.assertEqual(done, bare)
        self.assertLessEqual(taken, RINGS_BYTES)
        self.assertLessEqual(claimed, RINGS_BYTES)
        self.assertEqual((self.folder / "left").read_text(), "", "left in /dev/shm")
        return taken

    def test_a_worker_that_touches_cuda_once(self):
        taken = self.as_without_us("spawn ( alloc:1 sleep:300 )")
        self.assertLessEqual(taken, BEGINNING_BYTES)
        self.compare(1)

    def test_eight_ranks_alive(self):
        """As torchrun has them: a parent without CUDA, eight children at the same time."""
        command = [str(hosts_test.HOSTS / "processes_host"), *"alloc:300 sleep:500 free alloc:300 free".split()]
        script = "import subprocess, sys; sys.exit(any([p.wait() for p in [subprocess.Popen(sys.argv[1:]) for _ in range(8)]]))"
        done, taken, claimed = self.finish(self.start(["/usr/bin/env", "python3", "-c", script, *command]))
        self.assertEqual(done, (0, "", []))
        self.assertLessEqual(taken, RINGS_BYTES)
        self.assertLessEqual(claimed, RINGS_BYTES)
        self.assertEqual((self.folder / "left").read_text(), "")
        self.assertEqual(len(self.traces_by_pid()), 8)
        for traces in self.traces_by_pid().values():
            answer = hosts_test.truth.report(self.setup, traces[0])
            self.assertEqual((answer["complete"], answer["losses"]["dropped_allocs"], answer["losses"]["dropped_frees"]), (True, 0, 0))

    def test_more_children_than_there_is_room_for(self):
        children = SHARED_BYTES // BEGINNING_BYTES + 22
        taken = self.as_without_us("fork ( alloc:1 exit:0 ) " * children, SIMCUDA_LOG="")
        self.assertLessEqual(taken, 2 * BEGINNING_BYTES)
        self.assertEqual(len(self.traces()), children)

    def test_killed_children_of_a_parent_with_cuda(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(signal=number):
                self.setUp()
                self.as_without_us(f"alloc:2 {f'spawn ( alloc:9 free alloc:4 sleep:150 kill:{number} ) ' * 5} spawn ( alloc:3 kill:{number} ) free")
                self.assertEqual(self.allocations(self.compare(7)), [2, 3, *5 * [13]])

    def test_killed_children_of_a_parent_without_cuda(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(signal=number):
                self.setUp()
                self.as_without_us(f"spawn ( alloc:9 free alloc:4 kill:{number} ) " * 12 + "spawn ( alloc:1 )")
                self.assertEqual(self.allocations(self.compare(13)), [1, *12 * [13]], "the next recorded program clears them")
                self.setUp()
                self.as_without_us(f"spawn ( alloc:9 sleep:300 alloc:4 kill:{number} ) " * 2, run=True)
                self.assertEqual(self.allocations(self.compare(2)), 2 * [13], "gpumemshim run clears them")

    def test_a_report_finds_what_a_killed_child_left(self):
        """Also where the traces were moved since, rings and all."""
        self.as_without_us("spawn ( alloc:9 sleep:300 alloc:4 kill:9 )", run=True)
        (trace,) = self.traces()
        answer = hosts_test.truth.report(self.setup, trace)
        self.assertEqual((answer["events"]["runtime"], answer["end_unknown"], answer["running"]), (13, False, False))
        away = self.folder / "away"
        away.mkdir()
        for path in self.folder.glob("gpumemshim.*"):
            path.rename(away / path.name)
        self.assertEqual(hosts_test.truth.report(self.setup, away / trace.name)["events"]["runtime"], 13)
        (away / f"{trace.name}.ring").unlink()
        answer = hosts_test.truth.report(self.setup, away / trace.name)
        self.assertTrue(answer["end_unknown"])
        text = hosts_test.truth.run([self.setup.gpumem, "report", str(away / trace.name)], self.setup)
        self.assertIn("may be missing", text)
        self.assertNotIn("every event is in the trace", text)

    def test_a_ring_in_memory_of_its_own_dies_with_its_process(self):
        self.as_without_us("spawn ( alloc:9 sleep:300 alloc:4 kill:9 )", GPUMEMSHIM_RING_DIRECTORY="none")
        (trace,) = self.traces()
        answer = hosts_test.truth.report(self.setup, trace)
        self.assertEqual((answer["events"]["runtime"], answer["end_unknown"], answer["losses"]["total"]), (9, True, 0))

    def test_a_chain_of_images(self):
        """Forty programs in one process, each replaced before it ended: the events of all of them are found."""
        images = 40
        words = "alloc:5 " + "".join(f"exec ( alloc:{5 + i % 3} " for i in range(images - 1)) + "free" + " )" * (images - 1)
        done, taken, _ = self.finish(self.start([hosts_test.HOSTS / "processes_host", *words.split()], SIMCUDA_LOG=""))
        self.assertEqual(done, (0, "", []))
        self.assertLessEqual(taken, RINGS_BYTES)
        self.assertEqual((self.folder / "left").read_text(), "")
        for number, ring in enumerate(self.rings_without_a_trace()):
            pid = ring.split("processes_host.")[1].split(".")[0]
            to = str(self.folder / f"gpumemshim.ring{number}.{pid}.gmtrace")
            subprocess.run([self.setup.gpumem, "export", "trace", "-o", to, ring], check=True, capture_output=True, timeout=60)
        (traces,) = self.traces_by_pid().values()
        found = sorted(sum(event["kind"] == "alloc" for event in history.events_of(self.setup, trace)) for trace in traces)
        self.assertEqual(found, sorted([5, *(5 + i % 3 for i in range(images - 1))]))


if __name__ == "__main__":
    hosts_test.main()

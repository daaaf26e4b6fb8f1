# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Hostile places: a full disk, no /proc, a chroot, limits, descriptors closed or missing, calls forbidden. In each of them the program prints and
returns what it does without the recorder, our one line on stderr apart; and what the trace says is right or says what is missing.

    python tests/hosts/places_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import unittest

import hosts_test
import truth

WORK_EVENTS = 350  # of one `work` or `thread`
CONTEXT_EVENTS = 1  # the device's context is made
LIVE_BLOCKS = 50


def can_mount():
    done = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True)
    return os.geteuid() == 0 and done.returncode == 0


class Place(hosts_test.HostTest):
    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()

    def run_in(self, actions, preload, prefix=(), cwd=None, limit=None, another_user=False, **more):
        environment = self.environment(preload, TMPDIR=str(self.temporary), **more)
        host = str(hosts_test.HOSTS / "host_places")
        if another_user:
            host, environment = self.for_others(host, environment)
        command = [*prefix, host, *actions]
        if prefix:  # what goes before must not be recorded, nor fail for want of our library
            names = ("LD_PRELOAD", "LD_LIBRARY_PATH")
            command = [*prefix, "env", *(f"{name}={environment.pop(name)}" for name in names if name in environment), *command[len(prefix) :]]
        return subprocess.run(
            command, cwd=cwd or self.folder, env=environment, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, preexec_fn=limit
        )

    def compare(self, *actions, **place):
        """Runs with and without the recorder. Returns our line on stderr, or None."""
        bare = self.run_in(actions, preload=False, **place)
        (self.folder / "own.txt").unlink(missing_ok=True)
        done = self.run_in(actions, preload=True, **place)
        # A user of an earlier run may have had the same number in another namespace, and its folder in /tmp.
        ours = [line for line in done.stderr.splitlines() if line.startswith("gpumemshim:") and "gpumemshim ctl finds this process" not in line]
        self.assertEqual([line for line in done.stderr.splitlines() if not line.startswith("gpumemshim:")], bare.stderr.splitlines())
        self.assertEqual(done.stdout, bare.stdout)
        self.assertEqual(done.returncode, bare.returncode)
        self.assertEqual(bare.returncode, 3, bare.stderr)
        self.assertLessEqual(len(ours), 1, done.stderr)
        return ours[0] if ours else None

    def report_of(self, path, damaged=False):
        done = subprocess.run([truth_gpumem(), "report", "--json", str(path)], capture_output=True, text=True, env=self.environment(preload=False), timeout=600)
        answer = json.loads(done.stdout)
        in_part = damaged or answer["losses"]["total"] or answer["losses"]["write_error"]
        self.assertEqual(done.returncode, 4 if in_part else 0, done.stderr)
        return answer

    def notes_of(self, answer):
        return " ".join(answer["notes"])

    def assert_whole(self, path, works=1):
        answer = self.report_of(path)
        self.assertTrue(answer["complete"])
        self.assertEqual(answer["losses"]["total"], 0)
        self.assertEqual(answer["events"]["runtime"], works * WORK_EVENTS)
        return answer


def truth_gpumem():
    return str(hosts_test.BUILD / "bin" / "gpumemshim")


class Directories(Place):
    def test_a_directory_that_is_not_there(self):
        line = self.compare("work", GPUMEMSHIM_OUTPUT="missing/%n/x.gmtrace")
        (trace,) = self.folder.glob("missing/*/x.gmtrace")
        self.assertIn("x.gmtrace", line)
        self.assert_whole(trace)

    def test_a_directory_that_cannot_be_made(self):
        line = self.compare("work", GPUMEMSHIM_OUTPUT="/proc/missing/x.gmtrace")
        self.assertIn("missing/x.gmtrace: No such file or directory", line)
        (trace,) = self.temporary.glob("*.gmtrace")
        self.assertIn(trace.name, line)
        self.assert_whole(trace)

    @unittest.skipUnless(can_mount(), "needs root and mount namespaces")
    def test_a_read_only_directory(self):
        script = f"mount --bind {self.folder} {self.folder} && mount -o remount,ro,bind {self.folder} && mount -t tmpfs none {self.temporary} && "
        keep = self.folder.parent / (self.folder.name + "-kept")
        keep.mkdir()
        self.addCleanup(shutil.rmtree, keep)
        prefix = ("unshare", "-m", "sh", "-c", f"{script} \"$@\"; code=$?; cp {self.temporary}/*.gmtrace {keep}/ 2>/dev/null; exit $code", "sh")
        line = self.compare("work", prefix=prefix)
        self.assertIn("Read-only file system", line)
        (trace,) = keep.glob("*.gmtrace")
        self.assert_whole(trace)

    def test_a_file_that_is_deleted(self):
        line = self.compare("work", "wait", "remove", "gpumemshim.", "work")
        self.assertIn("no trace written", line)
        self.assertIn("deleted while the program ran", line)
        self.assertIn(f"{2 * WORK_EVENTS + CONTEXT_EVENTS} events lost", line)
        self.assertEqual(self.traces(), [])

    def test_no_home_and_no_streams(self):
        def close_streams():
            for number in (0, 1, 2):
                os.close(number)

        environment = {"GPUMEMSHIM_OUTPUT": str(self.folder / "x.gmtrace")}
        for preload in (False, True):
            full = self.environment(preload, **environment)
            full.pop("HOME", None)
            done = subprocess.run([str(hosts_test.HOSTS / "host_places"), "work"], cwd=self.folder, env=full, preexec_fn=close_streams, timeout=600)
            self.assertEqual(done.returncode, 3)
        self.assert_whole(self.folder / "x.gmtrace")


@unittest.skipUnless(can_mount(), "needs root and mount namespaces")
class Mounts(Place):
    def inside(self, script):
        return ("unshare", "-m", "sh", "-c", f"mount --make-rprivate / && {script} && exec \"$@\"", "sh")

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        kept = self.folder / "kept.gmtrace"
        script = f"mount -t tmpfs -o size=8k none {disk} && cd {disk}"
        prefix = ("unshare", "-m", "sh", "-c", f"{script} && \"$@\"; code=$?; cp {disk}/*.gmtrace {kept} 2>/dev/null; exit $code", "sh")
        line = self.compare(*["work", "wait"] * 8, prefix=prefix)
        self.assertIn("No space left on device", line)
        answer = self.report_of(kept)
        # Room for these words was kept.
        self.assertIn("No space left", answer["losses"]["write_error"])
        self.assertTrue(answer["complete"])
        self.assertEqual(answer["events"]["runtime"] + answer["losses"]["unwritten_events"], 8 * WORK_EVENTS)

    def test_a_full_disk_and_a_kill(self):
        """The loss is said when it happens: nobody knows who will be killed next."""
        disk = self.folder / "disk"
        disk.mkdir()
        kept = self.folder / "kept.gmtrace"
        script = f"mount -t tmpfs -o size=8k none {disk} && cd {disk}"
        prefix = ("unshare", "-m", "sh", "-c", f"{script} && \"$@\"; cp {disk}/*.gmtrace {kept} 2>/dev/null; exit 0", "sh")
        self.run_in([*["work", "wait"] * 8, "kill"], True, prefix=prefix)
        losses = self.report_of(kept)["losses"]
        self.assertIn("No space left", losses["write_error"])
        self.assertGreater(losses["unwritten_events"], 0)

    def test_no_disk_at_all(self):
        disk = self.folder / "disk"
        disk.mkdir()
        script = f"mount -t tmpfs -o size=4k none {disk} && head -c 4096 /dev/zero > {disk}/zero; cd {disk}"
        prefix = ("unshare", "-m", "sh", "-c", f"{script}; \"$@\"", "sh")
        line = self.compare("work", "wait", "work", prefix=prefix)
        self.assertIn("No space left on device", line)

    def test_a_full_dev_shm(self):
        for script in ("mount -t tmpfs -o size=64k none /dev/shm", "mount -t tmpfs -o ro none /dev/shm", "mount -t tmpfs none /dev"):
            with self.subTest(script=script):
                for trace in self.traces():
                    trace.unlink()
                line = self.compare("work", prefix=self.inside(script), GPUMEMSHIM_RING_DIRECTORY="/dev/shm")
                self.assertIn("0 lost", line)
                self.assert_whole(self.the_trace())

    def test_no_proc(self):
        self.compare("work", "thread", prefix=self.inside("mount -t tmpfs none /proc"))
        self.assert_whole(self.the_trace(), works=2)

    def test_a_chroot_without_anything(self):
        jail = self.folder / "jail"
        jail.mkdir()
        line = self.compare("hold", "chroot", str(jail), "work", "wait", "work")
        self.assertIn(f"{2 * WORK_EVENTS + CONTEXT_EVENTS} events", line)
        found = list(self.folder.glob("**/*.gmtrace"))
        self.assertEqual(len(found), 1, found)
        self.assert_whole(found[0], works=2)


class Limits(Place):
    def limit(self, which, value):
        return lambda: resource.setrlimit(which, (value, value))

    def test_address_space(self):
        """From a limit at which the program just runs by itself, up to one at which there is room for the recorder."""
        runs = lambda mib: self.run_in(("work",), False, limit=self.limit(resource.RLIMIT_AS, mib << 20)).returncode == 3
        too_little, needed = 8, 1 << 16
        self.assertTrue(runs(needed))
        while needed - too_little > 16:
            middle = (too_little + needed) // 2
            too_little, needed = (too_little, middle) if runs(middle) else (middle, needed)
        for more in (16, 64):
            with self.subTest(mib=needed + more):
                self.compare("work", "wait", "work", limit=self.limit(resource.RLIMIT_AS, (needed + more) << 20))

    def test_few_descriptors(self):
        needed = next(n for n in range(3, 64) if self.run_in(("work",), False, limit=self.limit(resource.RLIMIT_NOFILE, n)).returncode == 3)
        for more in (0, 1, 2):
            with self.subTest(more=more):
                self.compare("work", "wait", "work", limit=self.limit(resource.RLIMIT_NOFILE, needed + more))

    def test_no_descriptor_left(self):
        line = self.compare("hold", "work", "wait", "descriptors", "work", "wait", "work")
        self.assertIn(f"{3 * WORK_EVENTS + CONTEXT_EVENTS:,} events", line)
        self.assert_whole(self.the_trace(), works=3)

    def test_size_of_files(self):
        """SIGXFSZ ends a program that does not expect it."""
        for size in (0, 1000, 100_000):
            with self.subTest(size=size):
                for trace in self.traces():
                    trace.unlink()
                self.compare("work", "wait", "work", limit=self.limit(resource.RLIMIT_FSIZE, size))

    def test_no_thread_may_be_made(self):
        self.compare("work", "thread", limit=lambda: resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, 256 << 10)))
        self.assert_whole(self.the_trace(), works=2)

    def test_a_thread_with_a_small_stack(self):
        self.compare("thread", "work", "thread")
        self.assert_whole(self.the_trace(), works=3)

    def test_calls_that_are_forbidden(self):
        self.compare("seccomp", "work", "thread")
        self.assert_whole(self.the_trace(), works=2)


class Descriptors(Place):
    def test_all_are_closed_and_their_numbers_used(self):
        line = self.compare("work", "wait", "closeall", "work", "wait", "work")
        self.assertIn(f"{3 * WORK_EVENTS + CONTEXT_EVENTS:,} events", line)
        self.assert_whole(self.the_trace(), works=3)
        self.assertEqual((self.folder / "own.txt").stat().st_size, 0)

    def test_a_reader_of_stderr_that_has_gone(self):
        for preload in (False, True):
            reading, writing = os.pipe()
            os.close(reading)
            default = lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            done = subprocess.run(
                [str(hosts_test.HOSTS / "host_places"), "work"], cwd=self.folder, env=self.environment(preload), stdout=subprocess.DEVNULL, stderr=writing, preexec_fn=default, timeout=600
            )
            os.close(writing)
            self.assertEqual(done.returncode, 3)
        self.assert_whole(self.the_trace())


class Kills(Place):
    def test_between_the_file_and_its_first_words(self):
        """Wherever the writer is killed on its way to the first packet, there is no file or one with a header."""
        if not self.has_nameless_files():
            self.skipTest("this filesystem knows no files without names (O_TMPFILE)")
        for where in ("openat", "write", "linkat", "after"):
            with self.subTest(where=where):
                environment = self.environment(KILLED_AT=where)
                environment["LD_PRELOAD"] = f"{hosts_test.HOSTS / 'libpreload_killed.so'}:{environment['LD_PRELOAD']}"
                done = subprocess.run(
                    [str(hosts_test.HOSTS / "host_places"), "work", "wait"], cwd=self.folder, env=environment, capture_output=True, timeout=600
                )
                self.assertEqual(done.returncode, -signal.SIGKILL)
                traces = list(self.folder.glob("*.gmtrace"))
                self.assertEqual(len(traces), 1 if where == "after" else 0, traces)
                for trace in traces:
                    self.assertGreater(trace.stat().st_size, 0)

    def has_nameless_files(self):
        try:
            os.close(os.open(self.folder, os.O_TMPFILE | os.O_WRONLY))
        except OSError:
            return False
        return True


class Size(Place):
    ROUNDS = ["work", "wait"] * 8
    WORKS = 16
    MANY = ["work", "wait"] * WORKS
    ROTATE = {"GPUMEMSHIM_MAX_SIZE": "48k", "GPUMEMSHIM_ON_FULL": "rotate"}  # more than there is

    def series(self, files, first, last, **more):
        whole = {"events_before": 0, "objects_not_in_snapshot": 0, "missing_files": 0, "goes_on_elsewhere": False}
        return {"files": files, "first_number": first, "last_number": last, **whole, **more}

    def test_a_series_is_read_as_one(self):
        self.compare(*self.MANY, **self.ROTATE, GPUMEMSHIM_QUIET="1")
        traces = self.traces()
        self.assertGreater(len(traces), 2)
        answers = [self.report_of(trace) for trace in traces]
        for answer in answers:
            self.assertEqual(answer["events"]["runtime"], self.WORKS * WORK_EVENTS)
            self.assertNotIn("file", self.notes_of(answer))
            self.assertEqual(answer["series"], self.series(len(traces), 1, len(traces)))
            self.assertTrue(answer["complete"])
            self.assertEqual(answer["devices"][0]["end"], answers[0]["devices"][0]["end"])
        live = answers[0]["devices"][0]["end"]["total_bytes"]
        # The last file alone knows what is alive, with the stacks.
        alone = self.folder / "alone"
        alone.mkdir()
        last = max(traces, key=lambda path: int(path.name.split(".part")[1].split(".")[0]) if ".part" in path.name else 1)
        shutil.copy(last, alone)
        answer = self.report_of(alone / last.name)
        at_end = [device["end"]["total_bytes"] for device in answer["devices"]]  # none: it begins after the last free
        self.assertEqual(sum(at_end), live, answer["events"])
        self.assertIn(f"starts with file {len(traces)} of a series", self.notes_of(answer))
        before = answer["series"]["events_before"]
        self.assertEqual(answer["series"], self.series(1, len(traces), len(traces), events_before=before))
        self.assertEqual(before + answer["events"]["runtime"], self.WORKS * WORK_EVENTS + CONTEXT_EVENTS)
        # And one of the middle says that it is not all.
        shutil.copy(self.folder / traces[0].name.replace(".gmtrace", ".part2.gmtrace"), alone / "middle.gmtrace")
        answer = self.report_of(alone / "middle.gmtrace")
        self.assertIn("goes on in file 3, which is not here", self.notes_of(answer))
        self.assertTrue(answer["series"]["goes_on_elsewhere"])

    def test_joined_by_cat(self):
        self.compare(*self.MANY, **self.ROTATE, GPUMEMSHIM_QUIET="1")
        number_of = lambda path: int(path.name.split(".part")[1].split(".")[0]) if ".part" in path.name else 1
        traces = sorted(self.traces(), key=number_of)
        self.assertGreater(len(traces), 2)
        whole = self.report_of(traces[0])
        answer = self.report_of(self.joined(traces))
        self.assertEqual(answer["series"], self.series(len(traces), 1, len(traces)))
        self.assertEqual(answer["events"], whole["events"])
        self.assertEqual(answer["devices"], whole["devices"])
        self.assertEqual(answer["notes"], whole["notes"])
        self.assertTrue(answer["complete"])
        # What is not in it is said.
        answer = self.report_of(self.joined(traces[:1] + traces[2:]))
        self.assertEqual(answer["series"], self.series(len(traces) - 1, 1, len(traces), missing_files=1))
        answer = self.report_of(self.joined(traces[:2]))
        self.assertEqual(answer["series"], self.series(2, 1, 2, goes_on_elsewhere=True))
        self.assertIn("goes on in file 3, which is not here", self.notes_of(answer))
        self.assertNotIn("next file", self.notes_of(answer))
        answer = self.report_of(self.joined([traces[1], traces[0]]))
        self.assertIn("in the order of their numbers", self.notes_of(answer))
        self.assertNotIn("processes", self.notes_of(answer))

    def joined(self, traces):
        path = self.folder / "joined" / "all.gmtrace"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(trace.read_bytes() for trace in traces))
        return path

    def test_a_file_of_the_middle_is_missing(self):
        self.compare(*self.MANY, **self.ROTATE)
        traces = self.traces()
        whole = self.report_of(traces[0])
        (self.folder / traces[0].name.replace(".gmtrace", ".part2.gmtrace")).unlink()
        answer = self.report_of(traces[0])
        self.assertIn("1 file of the series missing", self.notes_of(answer))
        self.assertEqual(answer["series"]["missing_files"], 1)
        self.assertEqual(answer["devices"][0]["end"], whole["devices"][0]["end"])
        self.assertLess(answer["events"]["runtime"], self.WORKS * WORK_EVENTS)

    def test_the_last_files_are_kept(self):
        line = self.compare(*self.ROUNDS, GPUMEMSHIM_MAX_SIZE="16k")
        self.assertIn("gpumemshim report", line)
        answer = self.report_of(self.traces()[0])
        self.assertNotIn("missing", self.notes_of(answer))
        before = int(re.search(r"with what was alive then; (\d+) events before it are gone", self.notes_of(answer)).group(1))
        self.assertEqual(answer["events"]["runtime"] + before, 8 * WORK_EVENTS + CONTEXT_EVENTS)
        sizes = [(i % 7 + 1) << 16 for i in range(200)]
        live = sum(sizes[i] for i in range(0, 200, 4))
        self.assertEqual(answer["devices"][0]["end"]["total_bytes"], 8 * live)

    def test_killed_in_a_series(self):
        """What the ring has is found behind the last file."""
        rings = self.folder / "rings"
        rings.mkdir()
        environment = self.environment(**self.ROTATE, GPUMEMSHIM_RING_DIRECTORY=str(rings))
        command = [str(hosts_test.HOSTS / "host_places"), *self.MANY, "work", *["wait"] * 400]
        host = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with host:
            for _ in range(self.WORKS + 1):
                host.stdout.readline()
            host.kill()
        answer = self.report_of(self.traces()[0])
        self.assertEqual(answer["events"]["runtime"], (self.WORKS + 1) * WORK_EVENTS)
        self.assertFalse(answer["complete"])


if __name__ == "__main__":
    sys.argv[0] = str(pathlib.Path(__file__).resolve())
    hosts_test.main()

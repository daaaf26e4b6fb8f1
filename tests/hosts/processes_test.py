# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Processes: whatever makes one, changes one or ends one, each process that used CUDA has a trace of its own that agrees with the simulated driver's
log of that process, and nobody notices us.

    python tests/hosts/processes_test.py --build build/release --hosts build/release/tests/hosts [-k fork]
"""

import collections
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import hosts_test
import history

CHURNERS = 8  # threads of the word `churn`


class ProcessTest(hosts_test.HostTest):
    def environment(self, preload=True, **more):
        return super().environment(preload, **{"SIMCUDA_LOG": str(self.folder / "log.%p.tsv"), **more})

    def victim(self, words, preload=True, **more):
        return self.run_host("processes_host", *words.split(), preload=preload, **more)

    def as_without_us(self, words, code=0, **more):
        """Runs it bare and recorded: output and end are equal, our own lines apart. Returns those."""
        bare = self.victim(words, preload=False, SIMCUDA_LOG="", **more)
        done = self.victim(words, **more)
        ours = [line for line in done.stderr.splitlines() if line.startswith("gpumemshim:")]
        theirs = [line for line in done.stderr.splitlines() if not line.startswith("gpumemshim:")]
        self.assertEqual((bare.returncode, bare.stderr), (code, ""))
        self.assertEqual((done.returncode, done.stdout, theirs), (code, bare.stdout, []))
        return ours

    def rings_without_a_trace(self):
        """Of processes that ended before a trace was begun: where their rings were, or, once somebody cleared that, where the trace was to be."""
        return [*(os.path.join(self.ring_folder, ring) for ring in sorted(os.listdir(self.ring_folder))), *map(str, self.folder.glob("*.gmtrace.*.ring"))]

    def recover_orphans(self):
        """They become traces; the rings of others are read with their trace."""
        begun = set(self.traces_by_pid())
        for number, ring in enumerate(self.rings_without_a_trace()):
            pid = re.search(r"\.(\d+)\.", os.path.basename(ring))[1]
            if int(pid) not in begun:
                command = [self.setup.gpumem, "export", "trace", "--delete", "-o", str(self.folder / f"gpumemshim.ring{number}.{pid}.gmtrace"), ring]
                subprocess.run(command, check=True, capture_output=True)

    def traces_by_pid(self):
        """Process id -> its traces, in the order in which they were begun. A process that died between making the file and its first write left
        all that it recorded in its ring."""
        found = collections.defaultdict(list)
        for trace in sorted(filter(lambda path: path.stat().st_size > 0, self.traces()), key=lambda path: path.stat().st_mtime_ns):
            found[int(re.search(r"\.(\d+)(\.r\d+)?(\.[^.]+)*\.gmtrace$", trace.name)[1])].append(trace)
        return found

    def logs_by_pid(self):
        """Process id -> rows of its log; processes that never had memory are left out."""
        found = {}
        for log in self.folder.glob("log.*.tsv"):
            rows = list(history.rows_of_log(log))
            if any(row["kind"] in ("alloc", "create", "host_alloc") for row in rows):
                found[int(log.name.split(".")[1])] = rows
        return found

    def events_by_pid(self):
        self.recover_orphans()
        return {pid: [event for trace in traces for event in history.events_of(self.setup, trace)] for pid, traces in self.traces_by_pid().items()}

    def compare(self, processes):
        """Each process that the driver saw has a trace that agrees with the driver's log, and nobody else has one. Returns pid -> events."""
        events, logs = self.events_by_pid(), self.logs_by_pid()
        self.assertEqual(len(logs), processes, sorted(logs))
        self.assertEqual(set(events), set(logs))
        for pid, rows in logs.items():
            self.assertEqual(list(history.log_differences(events[pid], rows)), [], f"process {pid}")
        return events

    def allocations(self, events):
        return sorted(sum(event["kind"] == "alloc" for event in of_process) for of_process in events.values())


class Children(ProcessTest):
    def test_made_before_cuda(self):
        """Each gets a trace of its own, however it is made."""
        for maker in ("fork", "clone", "clone3", "spawn"):
            with self.subTest(maker=maker):
                self.setUp()
                ours = self.as_without_us(f"{maker} ( alloc:3 free ) {maker} ( alloc:4 exit:2 ) alloc:5")
                self.assertEqual(len(ours), 3)
                self.assertEqual(self.allocations(self.compare(3)), [3, 4, 5])

    def test_made_after_cuda(self):
        """The driver refuses them, as it does without us; the parent's trace has nothing of theirs."""
        for maker in ("fork", "clone", "clone3"):
            with self.subTest(maker=maker):
                self.setUp()
                self.as_without_us(f"alloc:3 {maker} ( refused refused exit:4 ) {maker} ( exit:5 ) alloc:2 free")
                self.assertEqual(self.allocations(self.compare(1)), [5])

    def test_made_while_cuda_is_initialised(self):
        """A child made by one thread while another is in cuInit can still initialise CUDA itself, or end in peace."""
        for _ in range(5):
            self.setUp()
            ours = self.as_without_us("detached ( init alloc:2 ) fork ( exit:0 ) fork ( _exit:0 ) clone ( _exit:0 ) allocated:2")
            self.assertLessEqual(len(ours), 1)
            self.compare(1)

    def test_new_images(self):
        """posix_spawn and vfork with exec after CUDA: a clean start."""
        self.as_without_us("alloc:3 spawn ( alloc:7 ) vfork alloc:1")
        self.assertEqual(self.allocations(self.compare(2)), [4, 7])

    def test_a_child_in_the_parents_memory(self):
        """CLONE_VM: the child's calls are calls on the parent's context, and stand in the parent's trace."""
        self.as_without_us("alloc:3 shared ( alloc:4 ) alloc:2 free")
        self.assertEqual(self.allocations(self.compare(1)), [9])

    def test_exec(self):
        """The same process goes on as another program: two traces, nothing of the first is lost."""
        for words in ("alloc:3 exec ( alloc:5 )", "alloc:3 thread ( exec ( alloc:5 ) )"):
            with self.subTest(words=words):
                self.setUp()
                self.as_without_us(words.replace("exec (", f"setenv:SIMCUDA_LOG={self.folder}/after.tsv exec ("))
                self.check_exec()

    def check_exec(self):
        (pid,) = self.traces_by_pid()
        first, second = self.traces_by_pid()[pid] if len(self.traces_by_pid()[pid]) == 2 else (None, *self.traces_by_pid()[pid])
        self.assertIsNotNone(second)
        after = list(history.rows_of_log(self.folder / "after.tsv"))
        self.assertEqual(list(history.log_differences(list(history.events_of(self.setup, second)), after)), [])
        if first is None:  # it was replaced before the first append
            rings = self.rings_without_a_trace()
            self.assertEqual(len(rings), 1, rings)
            first = self.folder / "first.gmtrace"
            subprocess.run([self.setup.gpumem, "export", "trace", "-o", str(first), *rings], check=True, capture_output=True)
        rows = list(history.rows_of_log(self.folder / f"log.{pid}.tsv"))
        self.assertEqual(list(history.log_differences(list(history.events_of(self.setup, first)), rows)), [])

    def test_exec_is_an_end(self):
        """The new image has the old one's process id and start time, but not its ring."""
        words = "alloc:3 written exec ( print:ready sleep:60000 )"
        process = subprocess.Popen(
            [str(hosts_test.HOSTS / "processes_host"), *words.split()], cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, text=True
        )
        with process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            answer = self.report()
            process.kill()
        self.assertFalse(answer["running"])
        self.assertEqual(answer["events"]["runtime"], 3)

    def test_a_tree_like_rays(self):
        """A driver starts workers, these start helpers; who never touches CUDA leaves nothing."""
        worker = "spawn ( {} spawn ( exit:0 ) fork ( vfork exit:0 ) spawn ( alloc:2 ) )"
        words = " ".join(worker.format(own) for own in ("alloc:4", "print:w", "alloc:6"))
        ours = self.as_without_us(f"{words} spawn ( spawn ( exit:1 ) ) exit:0")
        self.assertEqual(len(ours), 5)
        self.assertEqual(self.allocations(self.compare(5)), [2, 2, 2, 4, 6])

    def test_the_tree_is_reported(self):
        """`gpumemshim report DIR`: who started whom, past processes without CUDA; the two images of an exec."""
        self.victim("alloc:2 spawn ( alloc:3 ) written spawn ( fork ( spawn ( alloc:9 ) ) ) exec ( alloc:1 )")
        answer = json.loads(hosts_test.truth.run([self.setup.gpumem, "report", "--json", str(self.folder)], self.setup))
        self.assertEqual(len(answer["processes"]), 4)
        root = answer["processes"][0]
        self.assertIsNone(root["parent_file"])
        self.assertEqual({process["parent_file"] for process in answer["processes"][1:]}, {root["file"]})
        self.assertEqual(sorted(process["peak_bytes"] >> 20 for process in answer["processes"]), [1, 2, 3, 9])
        self.assertEqual(sum(process["pid"] == root["pid"] for process in answer["processes"]), 2)
        self.assertEqual(root["ancestors"][0]["pid"], os.getpid())
        text = hosts_test.truth.run([self.setup.gpumem, "report", str(self.folder)], self.setup)
        self.assertIn("(by exec)", text)

    def test_daemon(self):
        """Two forks and closed descriptors, then CUDA."""
        done = self.folder / "done"
        self.as_without_us(f"daemon ( alloc:5 free file:{done} )")
        hosts_test.wait_for(lambda: self.traces() and not os.listdir(self.ring_folder))
        self.assertEqual(self.allocations(self.compare(1)), [5])


class Descriptors(ProcessTest):
    def test_a_program_that_closes_everything(self):
        """What it opens afterwards gets the numbers of what it closed; nothing of ours may be written there."""
        file = self.folder / "own"
        self.as_without_us(f"alloc:3 written closeall file:{file} alloc:4 sleep:200 free")
        self.assertEqual(file.read_bytes(), b"")
        self.assertEqual(self.allocations(self.compare(1)), [7])


class PlainFiles(ProcessTest):
    """Nothing is opened that is not a plain file: a pipe without a reader would hold up whoever opens it."""

    def test_a_pipe_in_the_place_of_the_trace(self):
        """The program closes our descriptor, somebody puts a pipe where the trace was: it is gone, and the program ends."""
        go_on = self.folder / "go-on"
        command = [str(hosts_test.HOSTS / "processes_host"), *f"alloc:3 written closeall print:ready await:{go_on} alloc:2 sleep:200".split()]
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            trace = self.the_trace()
            trace.unlink()
            os.mkfifo(trace)
            go_on.write_text("")
            _, errors = process.communicate()
        self.assertEqual(process.returncode, 0)
        self.assertIn("replaced", errors.replace("deleted", "replaced"))
        self.assertEqual(os.listdir(self.ring_folder), [])

    def test_names_that_are_taken(self):
        for kind, make in {
            "pipe": os.mkfifo,
            "link": lambda path: os.symlink(self.folder / "elsewhere", path),
            "dangling link": lambda path: os.symlink("/dev/nowhere", path),
        }.items():
            with self.subTest(kind=kind):
                self.setUp()
                make(self.folder / "run.gmtrace")
                self.assertEqual(self.victim("alloc:2", GPUMEMSHIM_OUTPUT="run.gmtrace").returncode, 0)
                self.assertEqual(sorted(name for name in os.listdir(self.folder) if not name.startswith("log")), ["run.1.gmtrace", "run.gmtrace"])

    def test_devices(self):
        """No place for a trace, nor is the folder beside them: it goes where it would where the place cannot be written."""
        devices = tempfile.TemporaryDirectory(prefix="gpumemshim-devices-")  # of our own: the machine's must not be at risk
        self.addCleanup(devices.cleanup)
        null, link = f"{devices.name}/null", f"{devices.name}/link"
        try:
            os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError as error:
            self.skipTest(f"no device can be made here: {error}")
        os.symlink("null", link)
        folders = ("/dev", devices.name)
        before = [set(os.listdir(folder)) for folder in folders]
        for device in (null, link, "/dev/stdout", "/dev/fd/1"):
            with self.subTest(device=device):
                self.setUp()
                done = self.victim("alloc:2", GPUMEMSHIM_OUTPUT=device, TMPDIR=str(self.folder))
                self.assertEqual(done.returncode, 0)
                self.assertIn(device, done.stderr)
                self.assertEqual(self.allocations(self.compare(1)), [2])
        self.assertEqual([set(os.listdir(folder)) for folder in folders], before)
        self.assertTrue(stat.S_ISCHR(os.lstat(null).st_mode) and os.path.islink(link))


@unittest.skipUnless(os.geteuid() == 0, "changing the user needs root")
class Users(ProcessTest):
    def test_changed_after_start(self):
        self.as_without_us("alloc:3 written user:65534 alloc:2 free")
        self.assertEqual(self.allocations(self.compare(1)), [5])

    def test_changed_before_the_first_append(self):
        os.chmod(self.folder, 0o777)
        self.as_without_us("init user:65534 alloc:2")
        self.assertEqual(self.allocations(self.compare(1)), [2])


class Endings(ProcessTest):
    def test_every_way_to_end(self):
        """Nothing that was recorded is lost, and the end is as if it were not recorded."""
        endings = {
            "exit:3": 3, "_exit:4": 4, "quick_exit:5": 5, "abort": -signal.SIGABRT, "segv": -signal.SIGSEGV, "kill:15": -signal.SIGTERM,
            "kill:9": -signal.SIGKILL, "catch:15 kill:15": 115, "atexit-exit": 5, "atexit-cuda": 0, "thread ( exit:6 )": 6, "thread ( _exit:7 )": 7,
        }  # fmt: skip
        for words, code in endings.items():
            with self.subTest(ending=words):
                self.setUp()
                self.as_without_us(f"alloc:9 free alloc:2 {words}", code=code)
                self.assertGreaterEqual(self.allocations(self.compare(1))[0], 11)

    def test_stopped_and_continued(self):
        process = subprocess.Popen(
            [str(hosts_test.HOSTS / "processes_host"), *"alloc:9 stop alloc:3 free".split()], cwd=self.folder, env=self.environment(), stderr=subprocess.DEVNULL
        )
        with process:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.allocations(self.compare(1)), [12])

    def test_threads_in_the_middle_of_a_call(self):
        """Ended from another thread while eight allocate and free: each thread lacks at most the call that it was in."""
        for words, code in (("kill:9", -9), ("kill:15", -15), ("abort", -6)):
            with self.subTest(ending=words):
                self.setUp()
                done = self.victim(f"churn:300 {words}")
                self.assertEqual(done.returncode, code)
                self.check_all_but_the_last_call()

    def test_exit_while_threads_go_on(self):
        """What they do after our end is nobody's to record; until then each address has its calls in order."""
        for words, code in (("exit:3", 3), ("_exit:4", 4), ("quick_exit:5", 5)):
            with self.subTest(ending=words):
                self.setUp()
                self.assertEqual(self.victim(f"churn:300 {words}").returncode, code)
                self.check_calls_until_the_end()

    def check_calls_until_the_end(self):
        (ours,), (theirs,) = self.names_of_processes()
        self.assertGreater(sum(map(len, ours.values())), 50)
        for name, mine in ours.items():
            other = theirs.get(name, [])
            self.assertTrue(mine == other[: len(mine)] or mine[:-1] == other, f"{name}: {mine[-5:]}, the log {other[-5:]}")

    def names_of_processes(self):
        """The calls of each address: ours, the log's; a list over processes each."""
        ours = [history.calls_by_name(reversed(list(history.traced_calls(events)))) for events in self.events_by_pid().values()]
        return ours, [history.calls_by_name(history.logged_calls(rows)) for rows in self.logs_by_pid().values()]

    def check_all_but_the_last_call(self):
        """A free is recorded before its call and an allocation after, so one of them may lack the other side: the last of its address."""
        (ours,), (theirs,) = self.names_of_processes()
        self.assertGreater(sum(map(len, theirs.values())), 50)
        open_calls = [name for name in set(ours) | set(theirs) if ours.get(name) != theirs.get(name)]
        self.assertLessEqual(len(open_calls), CHURNERS)
        for name in open_calls:
            mine, other = ours.get(name, []), theirs.get(name, [])
            self.assertTrue(mine == other[:-1] or mine[:-1] == other, f"{name}: {mine[-5:]}, the log {other[-5:]}")


class Libraries(ProcessTest):
    def test_unloaded_and_loaded_again(self):
        """A library that used CUDA and is gone, destructor included, twice."""
        plugin = hosts_test.HOSTS / "libprocesses_plugin.so"
        self.as_without_us(f"alloc:2 plugin:{plugin} alloc:1 plugin:{plugin} free")
        self.assertEqual(self.allocations(self.compare(1)), [7])

    def test_destructors_after_ours(self):
        """A library that is never unloaded uses CUDA in its destructor, when we are done: it works, and is in no trace."""
        plugin = hosts_test.HOSTS / "libprocesses_plugin.so"
        ours = self.as_without_us(f"alloc:2 keep:{plugin} free")
        self.assertEqual(len(ours), 1)
        (events,), (rows,) = self.events_by_pid().values(), self.logs_by_pid().values()
        self.assertEqual(list(history.log_differences(events, rows[:-1])), [])
        self.assertEqual((rows[-1]["kind"], rows[-1]["size"]), ("free", str(3 << 20)))


class Sharing(ProcessTest):
    def test_memory_of_another_process(self):
        """Opened by three kinds of handles: the memory is the giver's, the taker has addresses of it."""
        done = self.run_host("host_shares")
        self.assertEqual(done.returncode, 0, done.stderr)
        giver, taker = map(int, done.stdout.split())
        events, logs = self.compare(2), self.logs_by_pid()
        self.assertEqual([event["kind"] for event in events[giver] if event["kind"].startswith("import")], [])
        kinds = ("import", "import_close")
        opened = [(event["kind"], event["address"]) for event in events[taker] if event["kind"] in kinds and event["address"]]
        self.assertEqual(opened, [(row["kind"], int(row["address"], 16)) for row in logs[taker] if row["kind"] in kinds and int(row["address"], 16)])
        self.assertEqual([kind for kind, _ in opened], ["import", "import_close", "import", "import"])
        ends = {}
        for pid, (trace,) in self.traces_by_pid().items():
            (device,) = hosts_test.truth.report(self.setup, trace)["devices"]
            ends[pid] = device["end"]["total_bytes"], device["breakdown"]["at_end"]["imported_bytes"]
        self.assertEqual(ends, {giver: (8 << 20, 0), taker: (5 << 20, 4 << 20)})


class Names(ProcessTest):
    def test_the_same_pid_in_two_namespaces(self):
        """Containers that write into one folder: their processes have equal numbers, often equal names."""
        command = ["unshare", "--pid", "--fork", "--mount-proc", str(hosts_test.HOSTS / "processes_host"), "alloc:2"]
        if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode != 0:
            self.skipTest("no right to make a PID namespace")
        for _ in range(3):
            done = subprocess.run(command, cwd=self.folder, env=self.environment(), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.traces()), 3)
        self.assertEqual(len(self.traces_by_pid()), 1)

    def test_many_started_at_once(self):
        """No lock is shared: a hundred end, each with its trace. (How long it takes is printed, not asserted.)"""
        taken = {}
        for preload in (False, True):
            started = time.monotonic()
            command = [str(hosts_test.HOSTS / "processes_host"), "alloc:1"]
            environment = self.environment(preload, SIMCUDA_LOG="", GPUMEMSHIM_RING_SIZE="256K")
            processes = [subprocess.Popen(command, cwd=self.folder, env=environment, stderr=subprocess.DEVNULL) for _ in range(100)]
            self.assertEqual({process.wait() for process in processes}, {0})
            taken[preload] = time.monotonic() - started
        print(f"100 processes at once: {taken[False]:.2f} s bare, {taken[True]:.2f} s recorded", file=sys.stderr)
        self.assertEqual(len(self.traces()), 100)


if __name__ == "__main__":
    hosts_test.main()

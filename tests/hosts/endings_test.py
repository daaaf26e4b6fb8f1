# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Processes that end by _exit, _Exit or quick_exit: the program's end is its own, its trace is whole, and its ring is gone.

    python tests/hosts/endings_test.py --build build/release --hosts build/release/tests/hosts [-k workers]
"""

import os
import subprocess
import sys

import hosts_test
import processes_test

BLOCK = """
import ctypes, os, sys
def allocate(count, free=0):
    runtime, memory = ctypes.CDLL("libcudart.so.13"), [ctypes.c_void_p() for _ in range(count)]
    for pointer in memory:
        assert runtime.cudaMalloc(ctypes.byref(pointer), 1 << 20) == 0
    for pointer in memory[:free]:
        assert runtime.cudaFree(pointer) == 0
    return count
"""


class EndingTest(processes_test.ProcessTest):
    def check_whole(self, processes):
        """Each trace agrees with the driver's log and has its end; no ring is left. Returns how many allocations each has."""
        self.assertEqual(os.listdir(self.ring_folder), [])
        for trace in self.traces():
            self.assertTrue(hosts_test.truth.report(self.setup, trace)["complete"], trace.name)
        return self.allocations(self.compare(processes))


class Exits(EndingTest):
    def test_nothing_is_left_behind(self):
        for words, code in {
            "_exit:4": 4, "_Exit:4": 4, "quick_exit:5": 5, "thread ( _exit:7 )": 7, "thread ( quick_exit:7 )": 7, "together:8": 8, "cancelled:9": 9,
            "atexit-_exit:6 exit:3": 6, "atexit-_exit:6": 6, "sleep:200 _exit:0": 0, "sleep:200 limit _exit:3": 3, "sleep:200 closeall _exit:3": 3,
            "fork ( _exit:1 ) fork ( exit:2 ) clone ( _exit:3 ) vfork _exit:255": 255,
        }.items():  # fmt: skip
            with self.subTest(ending=words):
                self.setUp()
                ours = self.as_without_us(f"alloc:9 free alloc:2 {words}", code=code)
                self.assertEqual(self.check_whole(1), [11])
                self.assertEqual(len(ours), 1, ours)

    def test_handlers_of_quick_exit(self):
        """What they do with CUDA is in the trace, whether they were registered before CUDA was used or after."""
        for words in ("at-quick-exit alloc:2", "alloc:2 at-quick-exit", "at-quick-exit at-quick-exit alloc:2 at-quick-exit"):
            with self.subTest(words=words):
                self.setUp()
                self.as_without_us(f"{words} quick_exit:3", code=3)
                self.assertEqual(self.check_whole(1), [2 + words.count("at-quick-exit")])

    def test_quick_exit_without_cuda(self):
        self.as_without_us("at-quick-exit fork ( quick_exit:2 ) quick_exit:3", code=3)
        self.as_without_us("_Exit:4", code=4)

    def test_children_in_the_parents_memory(self):
        """Their _exit is not the parent's: it goes on, and what it does afterwards is in its trace."""
        self.as_without_us("alloc:3 shared ( alloc:4 _exit:5 ) vfork alloc:2 shared ( _Exit:1 ) alloc:1 _exit:6", code=6)
        self.assertEqual(self.check_whole(1), [10])

    def test_forked_workers_print_nothing(self):
        """A line for each of hundreds would hide the program's own; the process that started them all has one."""
        ours = self.as_without_us("fork ( alloc:3 _exit:1 ) fork ( alloc:2 free quick_exit:2 ) fork ( _exit:3 ) alloc:4 _exit:5", code=5)
        self.assertEqual(self.check_whole(3), [2, 3, 4])
        self.assertEqual(len(ours), 1, ours)

    def test_a_forked_worker_tells_of_a_loss(self):
        """The same, but that its trace stopped at its greatest size."""
        done = self.victim("fork ( alloc:3000 _exit:1 )", GPUMEMSHIM_MAX_SIZE="4K", GPUMEMSHIM_ON_FULL="stop")
        self.assertEqual(done.returncode, 0)
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("gpumemshim:")]
        self.assertIn("GPUMEMSHIM_MAX_SIZE was reached", line)
        self.assertEqual(os.listdir(self.ring_folder), [])

    def test_a_sandbox(self):
        """A thread that may hardly call the kernel ends all the same; nothing is lost, and the ring has the rest."""
        self.as_without_us("alloc:5 sandbox _exit:3", code=3)
        self.assertEqual(self.allocations(self.compare(1)), [5])

    def test_threads_that_go_on(self):
        """Eight threads allocate and free meanwhile: what they did until the end is there."""
        for words, code in (("_exit:4", 4), ("quick_exit:4", 4), ("together:4", 4)):
            with self.subTest(ending=words):
                self.setUp()
                self.assertEqual(self.victim(f"churn:300 {words}").returncode, code)
                self.assertEqual(os.listdir(self.ring_folder), [])
                (trace,) = self.traces()
                self.assertTrue(hosts_test.truth.report(self.setup, trace)["complete"])

    def test_in_a_signal_handler(self):
        """_exit in a handler that interrupts anything: a hook, the heap, the loader, the set-up. It ends, with its status, and nothing is lost."""
        whole = 0
        for attempt in range(40):
            self.setUp()
            done = self.victim(f"ambush:{1 + attempt * 997 % 30_000}")
            self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if not line.startswith("gpumemshim:")]), (9, []))
            whole += os.listdir(self.ring_folder) == []
            events, logs = self.events_by_pid(), self.logs_by_pid()
            for pid, rows in logs.items():
                ours = hosts_test.history.calls_by_name(reversed(list(hosts_test.history.traced_calls(events[pid]))))
                theirs = hosts_test.history.calls_by_name(hosts_test.history.logged_calls(rows))
                apart = [name for name in set(ours) | set(theirs) if ours.get(name) != theirs.get(name)]
                self.assertLessEqual(len(apart), 1, apart)  # the call that was interrupted
        print(f"{whole} of 40 ended in a signal handler left no ring", file=sys.stderr)
        self.assertGreater(whole, 0)


class Workers(EndingTest):
    """Python's ways to work in several processes, with CUDA first used in the workers."""

    def python(self, program, code=0, **more):
        """Runs it bare and recorded: output and end are equal."""
        file = self.folder / "program.py"
        file.write_text(BLOCK + program)
        done = []
        for preload in (False, True):
            environment = self.environment(preload, **({} if preload else {"SIMCUDA_LOG": ""}), **more)
            done.append(subprocess.run([sys.executable, str(file)], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120))
        self.assertEqual((done[0].returncode, done[0].stderr), (code, ""))
        ours = [line for line in done[1].stderr.splitlines() if line.startswith("gpumemshim:")]
        theirs = [line for line in done[1].stderr.splitlines() if not line.startswith("gpumemshim:")]
        self.assertEqual((done[1].returncode, done[1].stdout, theirs), (code, done[0].stdout, []))
        return ours

    def test_multiprocessing(self):
        for method in ("fork", "forkserver", "spawn"):
            with self.subTest(method=method):
                self.setUp()
                ours = self.python(f"""
import multiprocessing
def work(count):
    allocate(count, 1)
    sys.exit(count)
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    workers = [context.Process(target=work, args=(2 + i,)) for i in range(4)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    print([worker.exitcode for worker in workers])
""")
                self.assertEqual(self.check_whole(4), [2, 3, 4, 5])
                self.assertEqual(len(ours), 4 if method == "spawn" else 0, ours)

    def test_pools(self):
        for method in ("fork", "forkserver", "spawn"):
            with self.subTest(method=method):
                self.setUp()
                self.python(f"""
import concurrent.futures, multiprocessing
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as pool:
        print(sum(pool.map(allocate, [3] * 12)))
""")
                self.assertEqual(os.listdir(self.ring_folder), [])
                self.assertEqual(sum(self.check_whole(len(self.logs_by_pid()))), 36)

    def test_a_program_that_ends_itself(self):
        """os._exit in the middle of it, beside threads that work on; and in a thread."""
        ours = self.python("""
import threading
allocate(50)
def go_on():
    while True: sum(range(1000))
for _ in range(4): threading.Thread(target=go_on, daemon=True).start()
threading.Thread(target=lambda: (allocate(20, 7), os._exit(3))).start()
threading.Event().wait()
""", code=3)
        self.assertEqual(self.check_whole(1), [70])
        self.assertEqual(len(ours), 1, ours)

    def test_many_short_workers(self):
        """None leaves anything, whether it used CUDA or not."""
        ours = self.python("""
for i in range(120):
    if (child := os.fork()) == 0:
        if i % 2: allocate(1)
        os._exit(i % 5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == i % 5
""", GPUMEMSHIM_RING_SIZE="256K")
        self.assertEqual((os.listdir(self.ring_folder), ours), ([], []))
        self.assertEqual(len(self.traces()), 60)


if __name__ == "__main__":
    hosts_test.main()

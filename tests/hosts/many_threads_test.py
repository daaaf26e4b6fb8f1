# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs of thousands of threads: what a thread's first event asks of the kernel does not grow with their number, nothing is lost, and memory is
bounded by the threads that live at a time.

    python tests/hosts/many_threads_test.py --build build/release --hosts build/release/tests/hosts
"""

import platform
import sys
import unittest

import hosts_test

MOST_QUESTIONS = 4  # of a thread
MOST_KIB = 160  # of a thread, its own stack and its chunk of the ring included: 75 where the recorder keeps up, 300 more with a cache of its own


@unittest.skipUnless(platform.machine() == "x86_64", "the host reads the registers of x86-64")
class ManyThreads(hosts_test.HostTest):
    def run_threads(self, way, count, **settings):
        """KiB of memory that it came to."""
        done = self.run_host("many_threads_host", way, str(count), **{"GPUMEMSHIM_RING_SIZE": "64M", **settings})
        self.assertEqual(done.returncode, 0, done.stderr)
        asked, kib = map(int, done.stdout.split())
        report = self.report()
        print(f"{count} threads {way}: {asked} calls of tgkill, {kib >> 10} MiB, lost: {report['losses']['total']}", file=sys.stderr)
        self.assertLessEqual(asked, MOST_QUESTIONS * count)
        events, lost = report["events"]["runtime"], report["losses"]["total"]
        self.assertEqual(events + lost, 2 * (count + 1))
        # A ring that must grow waits 100 us for the recorder's thread, which a busy machine may not run by then.
        self.assertLess(lost, count / 10)
        return kib

    def test_together(self):
        for count in (1000, 6000):
            with self.subTest(threads=count):
                self.setUp()
                self.run_threads("together", count)

    def test_memory_of_living_threads(self):
        """libunwind has a cache of 256 KiB for each thread besides, which is its own."""
        kib = {}
        for count in (200, 1200):
            self.setUp()
            kib[count] = self.run_threads("together", count, GPUMEMSHIM_UNWINDER="libgcc")
        self.assertLess((kib[1200] - kib[200]) / 1000, MOST_KIB)

    def test_one_after_the_other(self):
        """Twenty times as many need no more memory for threads than the first did."""
        kib = {}
        for count in (1000, 4000, 20000):
            with self.subTest(threads=count):
                self.setUp()
                kib[count] = self.run_threads("after", count)
        self.assertLess(kib[20000] - kib[1000], 64 << 10)  # the log of events on its way to the file is in it


if __name__ == "__main__":
    hosts_test.main()

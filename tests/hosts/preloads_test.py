# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Other preloads beside ours, before and behind it: the program behaves as it does with them alone, and the trace agrees with the simulated
driver's log. And children of other kinds that inherit LD_PRELOAD: another C library, another word size, static, set-uid.

    python tests/hosts/preloads_test.py --build build/release --hosts build/release/tests/hosts
"""

import os
import pathlib
import shutil
import subprocess
import unittest

import hosts_test
import history

SYSTEM = pathlib.Path("/usr/lib/x86_64-linux-gnu")


class PreloadTest(hosts_test.HostTest):
    def run_with(self, preloads, *command, **more):
        environment = self.environment(**more)
        environment["LD_PRELOAD"] = ":".join(str(preload) for preload in preloads)
        environment["LD_LIBRARY_PATH"] += f":{hosts_test.HOSTS}"
        environment.setdefault("SIMCUDA_LOG", str(self.folder / "log.tsv"))
        return subprocess.run([str(part) for part in command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600)

    @property
    def ours(self):
        return hosts_test.BUILD / "lib" / "libgpumemshim.so"

    def fresh(self):
        for file in self.folder.iterdir():
            file.unlink()

    def behaves_as_with_it_alone(self, other, command, before, **more):
        alone = self.run_with([other], *command, **more)
        self.fresh()
        both = self.run_with([other, self.ours] if before else [self.ours, other], *command, **more)
        theirs = [line for line in both.stderr.splitlines() if not line.startswith("gpumemshim:")]
        self.assertEqual((both.returncode, both.stdout, theirs), (alone.returncode, alone.stdout, alone.stderr.splitlines()))
        self.assertEqual(both.returncode, 0, both.stderr)
        return both

    def differences(self):
        events, rows = list(history.events_of(self.setup, self.the_trace())), list(history.rows_of_log(self.folder / "log.tsv"))
        self.assertGreater(len(rows), 3)
        return list(history.log_differences(events, rows))

    def check_both_orders(self, other, **more):
        if not pathlib.Path(other).exists():
            self.skipTest(f"{other} is not installed")
        for command in (("preloads_host",), ("host_driver",)):
            for before in (True, False):
                with self.subTest(other=pathlib.Path(other).name, before=before, host=command[0]):
                    self.fresh()
                    self.behaves_as_with_it_alone(other, (hosts_test.HOSTS / command[0],), before, **more)
                    self.assertEqual(self.differences(), [])


class Compiled(PreloadTest):
    """With programs of its own."""

    def compiled(self, *command, source, after=()):
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed")
        (self.folder / "child.c").write_text(source)
        done = subprocess.run([*command, "-o", "child", "child.c", *after], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"{' '.join(command)} cannot compile here: {done.stderr[-200:]}")
        return self.folder / "child"


class Allocators(PreloadTest):
    def test_jemalloc(self):
        self.check_both_orders(SYSTEM / "libjemalloc.so.2")

    def test_tcmalloc(self):
        self.check_both_orders(SYSTEM / "libtcmalloc_minimal.so.4")

    def test_mimalloc(self):
        self.check_both_orders(SYSTEM / "libmimalloc.so.2.0")


class Clocks(PreloadTest):
    def test_faketime(self):
        """The program lives in another year, its clock stands still; the order of events rests on the real one."""
        self.check_both_orders(SYSTEM / "faketime" / "libfaketime.so.1", FAKETIME="2001-02-03 04:05:06")
        self.assertEqual(self.report()["losses"]["total"], 0)


class OtherHooks(PreloadTest):
    def test_interposer_of_dlsym_that_forwards_by_a_call(self):
        self.check_both_orders(hosts_test.HOSTS / "libpreload_forwards.so")

    def test_interposer_of_dlsym_that_substitutes(self):
        self.check_both_orders(hosts_test.HOSTS / "libpreload_substitutes.so")

    def test_memory_saver(self):
        self.check_both_orders(hosts_test.HOSTS / "libpreload_saver.so")

    def test_audit(self):
        for host in ("preloads_host", "host_driver"):
            with self.subTest(host=host):
                self.fresh()
                done = self.run_with([self.ours], hosts_test.HOSTS / host, LD_AUDIT=str(hosts_test.HOSTS / "libpreload_audit.so"))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.differences(), [])

    def test_threads_that_die_in_a_hook(self):
        """Their call stays unrecorded, whatever they held is given back, and the others go on."""
        done = self.run_with([self.ours, hosts_test.HOSTS / "libpreload_dies.so"], hosts_test.HOSTS / "preloads_host", "threads", PRELOAD_DIES="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.differences(), [])
        self.assertTrue(self.report()["complete"])

    def test_second_definition_of_torchs_report(self):
        """Each report reaches us, the other preload and PyTorch once, in either order."""
        for before in (True, False):
            with self.subTest(before=before):
                self.fresh()
                done = self.behaves_as_with_it_alone(
                    hosts_test.HOSTS / "libpreload_report.so", (hosts_test.HOSTS / "preloads_host", "report"), before, SIMCUDA_LOG=""
                )
                self.assertIn("5 reports arrived", done.stdout)
                events = [(event["kind"], event["size_bytes"], event["address"]) for event in history.events_of(self.setup, self.the_trace())]
                self.assertEqual(events, [("alloc", 1000 * i, i << 20) for i in (1, 2, 3)] + [("free", 1000, 1 << 20)])


class StrangeChildren(Compiled):
    """What a training job starts: it inherits our preload and knows nothing of it."""

    SOURCE = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  printf("%d %s\\n", dlsym(RTLD_DEFAULT, "printf") != NULL, dlsym(RTLD_DEFAULT, "cuInit") == NULL ? "no cuda" : "cuda");
  return 5;
}
"""

    def compiled(self, *command, source=SOURCE):
        return super().compiled(*command, source=source)

    def runs_as_without_us(self, child, stderr=None):
        bare = self.run_with([], child)
        done = self.run_with([self.ours], child)
        self.assertEqual((done.returncode, done.stdout), (bare.returncode, bare.stdout), done.stderr)
        if stderr is None:
            self.assertEqual(done.stderr, bare.stderr)
        else:
            self.assertRegex(done.stderr, stderr)
        self.assertEqual(self.traces(), [])
        return done

    def test_musl(self):
        done = self.runs_as_without_us(self.compiled("musl-gcc"))
        self.assertEqual((done.returncode, done.stdout), (5, "1 no cuda\n"))

    def test_static(self):
        self.runs_as_without_us(self.compiled("cc", "-static"))

    def test_32_bit(self):
        """ld.so says a line of its own and goes on; nothing that we could do about it."""
        if not pathlib.Path("/lib/ld-linux.so.2").exists():
            self.skipTest("no 32-bit loader here (libc6-i386)")
        source = "int _start(void) { __asm__ volatile(\"int $0x80\" : : \"a\"(1), \"b\"(7)); return 0; }"
        child = self.compiled("cc", "-m32", "-nostdlib", "-no-pie", "-Wl,--dynamic-linker=/lib/ld-linux.so.2,--no-as-needed", "-L/usr/lib32", "-l:libc.so.6", source=source)
        done = self.runs_as_without_us(child, stderr=r"cannot be preloaded.*ignored")
        self.assertEqual(done.returncode, 7)

    @unittest.skipUnless(os.geteuid() == 0, "making a set-uid program needs root")
    def test_set_uid(self):
        """The loader drops us for a program that runs as somebody else."""
        child = self.compiled("cc")
        os.chmod(self.folder, 0o755)
        os.chmod(child, 0o4755)
        as_nobody = ["setpriv", "--reuid", "65534", "--clear-groups", str(child)]
        done = self.run_with([self.ours], *as_nobody)
        self.assertEqual((done.returncode, done.stdout), (5, "1 no cuda\n"), done.stderr)

    def test_a_tree_of_shells_and_tools(self):
        """As a compiler of kernels is started: shells, pipes, tools that die."""
        script = "for i in 1 2 3; do (sh -c 'cat /dev/null | sort | cc -x c -E - >/dev/null'; echo $i) & done; wait | cat; sh -c 'kill -9 $$' ; echo end $?"
        bare, done = self.run_with([], "sh", "-c", script), self.run_with([self.ours], "sh", "-c", script)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(bare.stdout.splitlines()))
        self.assertEqual((done.returncode, done.stderr), (bare.returncode, bare.stderr))
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    hosts_test.main()

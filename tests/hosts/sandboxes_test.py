# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs that may do little, and programs that may do more than who started them: nothing of the recorder happens in either before CUDA is used, and
in the latter not at all.

    python tests/hosts/sandboxes_test.py --build build/release --hosts build/release/tests/hosts
"""

import os
import shutil
import signal
import unittest

import hosts_test
import preloads_test

# All but write and the ends of a process kill it.
SANDBOXED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
int main(int count, char** words) {
  if (strcmp(words[1], "driver") == 0 && dlopen("libcuda.so.1", RTLD_NOW) == NULL) return 70;
  if (strcmp(words[1], "child") == 0) {
    int status, child = fork();
    if (child == 0) _exit(0);
    if (waitpid(child, &status, 0) != child || status != 0) return 70;
    if ((child = vfork()) == 0) _exit(1);
    if (waitpid(child, NULL, 0) != child) return 70;
  }
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), ALLOW(write), ALLOW(exit_group), ALLOW(exit),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 71;
  if (prctl(PR_SET_SECCOMP, strcmp(words[2], "strict") == 0 ? SECCOMP_MODE_STRICT : SECCOMP_MODE_FILTER, &program) != 0) return 71;
  write(1, "sandboxed\n", 10);
  if (strcmp(words[2], "strict") == 0) syscall(SYS_exit, 4);
  if (strcmp(words[2], "exit") == 0) exit(5);
  if (strcmp(words[2], "_exit") == 0) _exit(6);
  if (strcmp(words[2], "quick_exit") == 0) quick_exit(7);
  return 8;
}
"""

PRIVILEGED = r"""
#include <stdio.h>
#include <sys/auxv.h>
#include <dirent.h>
#include <unistd.h>
int cuInit(unsigned);
int cuDeviceGet(int*, int);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
int main(void) {
  int device = 0, threads = 0;
  void* context = NULL;
  unsigned long long memory = 0;
  int results[5];
  results[0] = cuInit(0);
  results[1] = cuDeviceGet(&device, 0);
  results[2] = cuDevicePrimaryCtxRetain(&context, device);
  results[3] = cuCtxSetCurrent(context);
  results[4] = cuMemAlloc_v2(&memory, 1 << 20);
  DIR* tasks = opendir("/proc/self/task");
  while (tasks != NULL && readdir(tasks) != NULL) ++threads;
  printf("secure %lu, user %d as %d, cuda %d %d %d %d %d, threads %d\n", getauxval(AT_SECURE), (int)getuid(), (int)geteuid(), results[0], results[1],
    results[2], results[3], results[4], threads - 2);
  return cuMemFree_v2(memory);
}
"""


class Sandboxed(preloads_test.Compiled):
    def test_no_system_call_of_ours(self):
        """Of a process that never used CUDA, whatever it has loaded, and whatever children it had."""
        child = self.compiled("cc", source=SANDBOXED)
        for before in ("plain", "driver", "child"):
            for ending in ("return", "exit", "_exit", "quick_exit", "strict"):
                with self.subTest(before=before, ending=ending):
                    bare, done = self.run_with([], child, before, ending), self.run_with([self.ours], child, before, ending)
                    if bare.returncode in (71, -signal.SIGSYS):
                        self.skipTest("seccomp is not to be had here, or this C library ends with other calls")
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (bare.returncode, "sandboxed\n", bare.stderr))


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "making a set-uid program, and running it as another user, needs root and setpriv")
class SecureMode(preloads_test.Compiled):
    """A program with more rights than who started it, with the recorder in it: as /etc/ld.so.preload brings it there, here it is linked."""

    def setUp(self):
        super().setUp()
        libraries = (hosts_test.BUILD / "lib", hosts_test.BUILD / "lib" / "simcuda")
        paths = [f"-Wl,-rpath,{folder}" for folder in libraries]
        self.child = self.compiled(
            "cc", f"-L{libraries[0]}", f"-L{libraries[1]}", *paths, "-Wl,--disable-new-dtags,--no-as-needed,--allow-shlib-undefined",
            source=PRIVILEGED, after=("-l:libgpumemshim.so", "-l:libcuda.so.1"),
        )  # fmt: skip
        self.other = self.folder / "other"
        self.other.mkdir()
        os.chmod(self.folder, 0o755)
        os.chmod(self.other, 0o777)
        marker = self.other / "program"
        marker.write_text(f"#!/bin/sh\ntouch {self.other}/ran\n")
        os.chmod(marker, 0o755)
        os.chown(self.ring_folder, 65534, 65534)
        self.settings = {
            "GPUMEMSHIM_OUTPUT": str(self.other / "evil%p"), "GPUMEMSHIM_FORECAST": "1", "GPUMEMSHIM_PROGRAM": str(marker), "XDG_RUNTIME_DIR": str(self.other),
            "GPUMEMSHIM_SUMMARY": "on", "RANK": "0", "WORLD_SIZE": "2", "SIMCUDA_LOG": "",
        }  # fmt: skip

    def run_as_other(self):
        done = self.run_with([], "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", self.child, **self.settings)
        return done, sorted(path.name for path in self.other.iterdir() if path.name != "program") + os.listdir(self.ring_folder)

    def test_nothing_happens(self):
        os.chmod(self.child, 0o4755)
        done, left = self.run_as_other()
        if "secure 0" in done.stdout or done.returncode == 127:
            self.skipTest(f"set-uid programs are not obeyed here: {done.stdout}{done.stderr}")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "secure 1, user 65534 as 0, cuda 0 0 0 0 0, threads 1\n", ""))
        self.assertEqual(left, [])

    def test_the_same_program_without_the_right(self):
        """It is recorded, so the test above would see what happens."""
        os.chmod(self.child, 0o755)
        done = self.run_with([], self.child, **self.settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("secure 0", done.stdout)
        self.assertTrue([path for path in self.other.iterdir() if path.name.startswith("evil")], done.stderr)


if __name__ == "__main__":
    hosts_test.main()

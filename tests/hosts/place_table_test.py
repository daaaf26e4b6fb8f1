# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A table of bad places: limits, descriptors, directories, file systems, namespaces, calls that are refused, users, clocks and surroundings. In each one
the program prints and returns what it does without the recorder; where it can be recorded the trace is whole, and where not one line says so.
places_test.py looks closer at some of them.

    python tests/hosts/place_table_test.py --build build/release --hosts build/release/tests/hosts [-k Limits]
"""

import ctypes
import os
import pathlib
import resource
import signal
import struct
import sys
import unittest

import hosts_test
import places_test

MIB = 1 << 20
WORK = ("work", "wait", "work")
# What becomes of the trace: it is whole, wherever it lies; it is whole or a line says what is missing; a line says that there is none.
WHOLE, REPORTED, NONE = "whole", "reported", "none"


def limited(which, soft, hard=None):
    return lambda: resource.setrlimit(getattr(resource, which), (soft, soft if hard is None else hard))


def closed(*numbers):
    return lambda: [os.close(number) for number in numbers]


def taken(count):
    """So many descriptors are open on files of other kinds."""

    def take():
        for i in range(count):
            os.dup2(os.open("/dev/null", os.O_RDWR) if i % 2 else os.pipe()[1], 10 + i)

    return take


def ignoring(*signals):
    return lambda: [signal.signal(number, signal.SIG_IGN) for number in signals]


def blocking_all():
    return signal.pthread_sigmask(signal.SIG_SETMASK, set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33})


def refusing(*calls, how=1):
    """A seccomp filter: these calls fail with error `how` (1 EPERM, 38 ENOSYS)."""

    def refuse():
        load = struct.pack("HBBI", 0x20, 0, 0, 0)
        each = b"".join(struct.pack("HBBI", 0x15, 0, 1, call) + struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | how) for call in calls)
        program = load + each + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
        buffer = ctypes.create_string_buffer(program)
        filter_ = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, ctypes.create_string_buffer(filter_), 0, 0) != 0:
            os._exit(99)

    return refuse


def script(text):
    return ("sh", "-c", f"{text}; exec \"$@\"", "sh")


def mounted(text):
    return ("unshare", "-m", "sh", "-c", f"mount --make-rprivate / && {text} && exec \"$@\"", "sh")


ANOTHER_USER = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")

# x86-64's numbers.
FALLOCATE, FLOCK, MEMFD, MEMBARRIER, OPENAT2, CLONE3, SOCKET, STATX = 285, 73, 319, 324, 437, 435, 41, 332
PROCESS_VM_READV, TGKILL, MADVISE, UNLINK, LINKAT, FTRUNCATE, READLINK = 310, 234, 28, 87, 265, 77, 89

LIMITS = {
    "descriptors: as many as are open and two": dict(limit=limited("RLIMIT_NOFILE", 8), trace=REPORTED),
    "descriptors: twelve": dict(limit=limited("RLIMIT_NOFILE", 12), trace=REPORTED),
    "descriptors: none from the middle on": dict(actions=("hold", "work", "wait", "descriptors", "work", "wait", "work"), works=3),
    "descriptors: all taken, then some": dict(limit=taken(200)),
    "files of 0 bytes": dict(limit=limited("RLIMIT_FSIZE", 0), trace=REPORTED),
    "files of 1,000 bytes": dict(limit=limited("RLIMIT_FSIZE", 1000), trace=REPORTED),
    "files of 64 KiB": dict(limit=limited("RLIMIT_FSIZE", 65536), trace=REPORTED),
    "stacks of 256 KiB": dict(limit=limited("RLIMIT_STACK", 256 << 10), actions=("work", "thread"), works=2),
    "a thread of 64 KiB": dict(actions=("thread", "work"), works=2),
    "a thread with the smallest stack": dict(actions=("tiny", "wait", "work"), works=2),
    "no memory may be locked": dict(limit=limited("RLIMIT_MEMLOCK", 0)),
    "no signal may wait": dict(limit=limited("RLIMIT_SIGPENDING", 0)),
    "no message queues": dict(limit=limited("RLIMIT_MSGQUEUE", 0)),
    "no core": dict(limit=limited("RLIMIT_CORE", 0)),
    "lowest priority": dict(limit=lambda: os.nice(19)),
    "one processor": dict(limit=lambda: os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})),
    "batch": dict(limit=lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))),
}

DESCRIPTORS = {
    "no standard input": dict(limit=closed(0)),
    "all closed and used again": dict(actions=("work", "wait", "closeall", "work", "wait", "work"), works=3),
    "closed and used before CUDA": dict(actions=("closeall", *WORK)),
    "signals blocked": dict(limit=blocking_all),
    "signals ignored": dict(limit=ignoring(signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)),
    "a signal each millisecond": dict(actions=("prompt", *WORK)),
    "a trace that is deleted": dict(actions=("work", "wait", "remove", "gpumemshim.", "work"), trace=NONE),
}

CALLS = {
    "EPERM for membarrier, tgkill, memfd": dict(limit=refusing(MEMBARRIER, TGKILL, MEMFD)),
    "ENOSYS for membarrier, statx, openat2": dict(limit=refusing(MEMBARRIER, STATX, OPENAT2, how=38)),
    "ENOSYS for clone3": dict(limit=refusing(CLONE3, how=38)),
    "EPERM for fallocate": dict(limit=refusing(FALLOCATE)),
    "ENOSYS for fallocate": dict(limit=refusing(FALLOCATE, how=38)),
    "EPERM for flock": dict(limit=refusing(FLOCK)),
    "ENOSYS for flock": dict(limit=refusing(FLOCK, how=38)),
    "EPERM for sockets": dict(limit=refusing(SOCKET)),
    "EPERM for process_vm_readv": dict(limit=refusing(PROCESS_VM_READV)),
    "ENOSYS for process_vm_readv, madvise": dict(limit=refusing(PROCESS_VM_READV, MADVISE, how=38)),
    "EPERM for linkat": dict(limit=refusing(LINKAT)),
    "EPERM for ftruncate": dict(limit=refusing(FTRUNCATE)),
    "EPERM for unlink": dict(limit=refusing(UNLINK)),
    "EPERM for readlink": dict(limit=refusing(READLINK)),
    "no new privileges": dict(limit=refusing()),
    "seccomp in the program": dict(actions=("seccomp", "work", "thread"), works=2),
}

DIRECTORIES = {
    "a directory that is not there": dict(more={"GPUMEMSHIM_OUTPUT": "missing/x.gmtrace"}),
    "a path that is too long": dict(more={"GPUMEMSHIM_OUTPUT": "d/" * 2100 + "x.gmtrace"}),
    "a name that is too long": dict(more={"GPUMEMSHIM_OUTPUT": "x" * 300 + ".gmtrace"}),
    "a path through a file": dict(prefix=script("touch plain"), more={"GPUMEMSHIM_OUTPUT": "plain/x.gmtrace"}),
    "a loop of links": dict(prefix=script("ln -sf loop loop"), more={"GPUMEMSHIM_OUTPUT": "loop/x.gmtrace"}),
    "a link in place of the trace": dict(prefix=script("ln -sf /etc/passwd x.gmtrace"), more={"GPUMEMSHIM_OUTPUT": "x.gmtrace"}),
    "a directory in place of the trace": dict(prefix=script("mkdir -p x.gmtrace"), more={"GPUMEMSHIM_OUTPUT": "x.gmtrace"}),
    "a pipe in place of the trace": dict(prefix=script("rm -f x.gmtrace; mkfifo x.gmtrace"), more={"GPUMEMSHIM_OUTPUT": "x.gmtrace"}),
    "a folder of the kernel's": dict(more={"GPUMEMSHIM_OUTPUT": "/sys/x.gmtrace"}),
    "a working directory that is deleted": dict(prefix=script("mkdir -p gone && cd gone && rmdir ../gone"), trace=REPORTED),
    "a deep working directory": dict(prefix=script('for i in $(seq 18); do d=$(printf "%0220d" $i); mkdir -p $d && cd $d; done'), trace=REPORTED),
    "no ring directory": dict(more={"GPUMEMSHIM_RING_DIRECTORY": "/no/such/directory"}),
    "a directory that cannot be made": dict(more={"GPUMEMSHIM_OUTPUT": "/proc/missing/x.gmtrace"}, trace=REPORTED),
    "a home that is none": dict(more={"GPUMEMSHIM_OUTPUT": "/proc/missing/x.gmtrace", "HOME": "/no/such/directory"}),
}

SURROUNDINGS = {
    "umask 777": dict(limit=lambda: os.umask(0o777)),
    "a locale that is none": dict(more={"LC_ALL": "xx_XX.none", "LANG": "tr_TR.UTF-8"}),
    "a time zone that is none": dict(more={"TZ": "No/Such_Zone"}),
    "no environment but ours": dict(prefix=("env", "-u", "HOME", "-u", "PATH", "-u", "USER")),
    "a large environment": dict(more={"LARGE": "x" * 100_000}),
    "settings that make no sense": dict(more={"GPUMEMSHIM_RING_SIZE": "-1", "GPUMEMSHIM_SAMPLE_MS": "soon", "GPUMEMSHIM_MAX_SIZE": "99999999999999999999"}),
    "a session of its own": dict(prefix=("setsid", "-w")),
}

NAMESPACES = {
    "a full /dev/shm": dict(prefix=mounted("mount -t tmpfs -o size=64k none /dev/shm"), more={"GPUMEMSHIM_RING_DIRECTORY": "/dev/shm"}),
    "a read-only /dev/shm": dict(prefix=mounted("mount -t tmpfs -o ro none /dev/shm"), more={"GPUMEMSHIM_RING_DIRECTORY": "/dev/shm"}),
    "no /dev/shm": dict(prefix=mounted("mount -t tmpfs none /dev"), more={"GPUMEMSHIM_RING_DIRECTORY": "/dev/shm"}),
    "no /proc": dict(prefix=mounted("mount -t tmpfs none /proc")),
    "a full disk": dict(prefix=mounted("mkdir -p d && mount -t tmpfs -o size=8k none d && cd d"), actions=("work", "wait") * 4, trace=REPORTED, works=4),
    "a disk without a byte": dict(prefix=mounted("mkdir -p d && mount -t tmpfs -o size=4k none d && head -c 4096 /dev/zero > d/z; cd d"), trace=REPORTED),
    "a disk without inodes": dict(prefix=mounted("mkdir -p d && mount -t tmpfs -o nr_inodes=1 none d && cd d"), trace=REPORTED),
    "a read-only disk": dict(prefix=mounted("mkdir -p d && mount -t tmpfs -o ro none d && cd d"), trace=REPORTED),
    "no process namespace of the host": dict(prefix=("unshare", "--pid", "--fork", "--mount-proc")),
    "no network": dict(prefix=("unshare", "-n")),
    "another host name": dict(prefix=("unshare", "-u", "sh", "-c", "hostname $(printf 'h%.0s' $(seq 60)); exec \"$@\"", "sh")),
    "a user namespace without users": dict(prefix=("unshare", "-U"), trace=REPORTED),
    "another user": dict(prefix=ANOTHER_USER, another_user=True, trace=REPORTED),
    "another user who may make no thread": dict(prefix=(*ANOTHER_USER, "prlimit", "--nproc=1"), another_user=True, trace=NONE),
    "a chroot": dict(actions=("hold", "chroot", "{folder}/jail", *WORK), prefix=script("mkdir -p jail")),
}

AS_ROOMS = {0.5: NONE, 2: NONE, 16: NONE, 200: WHOLE, 2048: WHOLE}  # MiB over what the program has when CUDA is there


class Table(places_test.Place):
    def check(self, actions=WORK, trace=WHOLE, works=2, more=None, another_user=False, **place):
        actions = [str(action).format(folder=self.folder) for action in actions]
        line = self.compare(*actions, another_user=another_user, **place, **(more or {}))
        found = [path for path in self.folder.rglob("*.gmtrace") if path.is_file() and not path.is_symlink() and path.stat().st_size > 0]
        if trace == NONE:
            self.assertEqual(found, [])
            self.assertRegex(line or "", "nothing is recorded|no trace written")
        elif trace == REPORTED:
            self.assertTrue(line or found)
            self.account(found, line, works)
        else:
            self.assertEqual(len(found), 1, (line, found))
            found[0].chmod(0o600)  # a umask may have closed it to its owner, too, who is root or is not
            self.assert_whole(found[0], works=works)

    def account(self, found, line, works):
        """What is not in the trace is counted in it."""
        for path in found:
            answer = self.report_of(path)
            events = answer["events"]["runtime"] + answer["events"]["driver"] + answer["losses"]["total"]
            self.assertEqual(events, works * places_test.WORK_EVENTS + places_test.CONTEXT_EVENTS, line)

    def check_all(self, table):
        for name, place in table.items():
            with self.subTest(name):
                self.setUp()
                self.check(**place)
        print(f"  {len(table)} places")


class Places(Table):
    def test_there_are_enough(self):
        tables = (LIMITS, DESCRIPTORS, CALLS, DIRECTORIES, SURROUNDINGS, NAMESPACES, AS_ROOMS)
        self.assertGreaterEqual(sum(map(len, tables)), 58)

    def test_limits(self):
        self.check_all(LIMITS)

    def test_descriptors_and_signals(self):
        self.check_all(DESCRIPTORS)

    def test_calls_that_are_refused(self):
        self.check_all(CALLS)

    def test_directories(self):
        self.check_all(DIRECTORIES)

    def test_surroundings(self):
        self.check_all(SURROUNDINGS)

    @unittest.skipUnless(places_test.can_mount(), "needs root and mount namespaces")
    def test_namespaces(self):
        self.check_all(NAMESPACES)

    def test_room_in_the_address_space(self):
        """The program has the whole of what its limit leaves: it takes most of it, after work and on top of a thread."""
        grows = int(self.run_in(("measure",), False).stdout)
        for mib, trace in AS_ROOMS.items():
            with self.subTest(mib=mib):
                self.setUp()
                room = int(mib * MIB)
                actions = ("room", grows + room, "work", "use", room * 7 // 8, "wait", "work", "use", room * 3 // 4)
                self.check(actions=actions, trace=trace)


if __name__ == "__main__":
    sys.argv[0] = str(pathlib.Path(__file__).resolve())
    hosts_test.main()

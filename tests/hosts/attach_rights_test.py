# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What stands against `gpumemshim attach` is one sentence with the way out, `gpumemshim doctor PID` has the same sentence beforehand, and the program goes on.

    python tests/hosts/attach_rights_test.py --build build/release --hosts build/release/tests/hosts
"""

import ctypes
import json
import os
import pathlib
import shutil
import struct
import subprocess
import time

import attach_test
import hosts_test

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--")
IS_ROOT = os.geteuid() == 0
PTRACE, PROCESS_VM_READV = 101, 310  # calls of x86-64


def works(*command):
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def forbid(system_call):
    """For subprocess's preexec_fn: from now on the call fails with EPERM."""

    def install():
        library = ctypes.CDLL(None, use_errno=True)
        steps = [(0x20, 0, 0, 0), (0x15, 0, 1, system_call), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
        if library.prctl(38, 1, 0, 0, 0) != 0 or library.prctl(22, 2, program, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")

    return install


def static_program(is_64):
    """An ELF file without any library, which waits for ever."""
    if is_64:
        code = b"\xb8\x22\0\0\0\x0f\x05\xeb\xf7"  # pause(), again and again
        header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        size = 120 + len(code)
        return header + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, size, size, 4096) + code
    code = b"\xb8\x1d\0\0\0\xcd\x80\xeb\xf7"
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    size = 84 + len(code)
    return header + struct.pack("<IIIIIIII", 1, 0, 0x8048000, 0x8048000, size, size, 5, 4096) + code


class RightsTest(attach_test.AttachTest):
    def ask(self, command, *words, before=(), preexec=None):
        environment = self.variables | {"GPUMEMSHIM_RING_DIRECTORY": self.ring_folder}
        done = subprocess.run(
            [*before, command, *map(str, words)], cwd="/", env=environment, preexec_fn=preexec, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def check_refused(self, pid, *texts, code=3, gpumem=None, before=(), preexec=None):
        gpumem = gpumem or self.setup.gpumem
        found = self.ask(gpumem, "attach", pid, before=before, preexec=preexec)
        self.assertEqual(found[0], code, found)
        sentence = found[2].removeprefix("gpumemshim: ").strip().removesuffix(".")
        for text in texts:
            self.assertIn(text, sentence)
        self.assertEqual(len(found[2].splitlines()), 1, found)
        said = self.ask(gpumem, "doctor", "--json", pid, before=before, preexec=preexec)[1]
        findings = [finding["found"] for finding in json.loads(said)["findings"]]
        self.assertTrue(any(sentence in each for each in findings), (sentence, findings))

    def start_process(self, *command):
        process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process


class OfTheSystem(RightsTest):
    def nobodys_tools(self):
        """Copies that another user may read."""
        if not IS_ROOT:
            self.skipTest("root alone can become another user")
        if not works(*NOBODY, "true"):
            self.skipTest("setpriv cannot become another user here")
        self.folder.chmod(0o777)
        tools = self.folder / "tools"
        (tools / "bin").mkdir(parents=True)
        (tools / "lib").mkdir()
        shutil.copy(self.setup.gpumem, tools / "bin")
        shutil.copy(hosts_test.HOSTS / "attach_host", tools / "bin")
        shutil.copy(hosts_test.BUILD / "lib" / "libgpumemshim.so", tools / "lib")
        return tools / "bin"

    def test_another_users_process(self):
        tools = self.nobodys_tools()
        process = self.start("sleep")
        self.check_refused(process.pid, "another user", "sudo", gpumem=tools / "gpumemshim", before=NOBODY)
        self.end(process)

    def test_one_that_nobody_may_trace(self):
        tools = self.nobodys_tools()
        process = self.start_process(*NOBODY, tools / "attach_host", "private", str(self.stop))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.check_refused(process.pid, "may not", "GPUMEMSHIM_START=off", gpumem=tools / "gpumemshim", before=NOBODY)
        self.end(process)

    def test_yama(self):
        """As where it is switched on, by a file in the place of the kernel's own."""
        tools = self.nobodys_tools()
        process = self.start_process(*NOBODY, tools / "attach_host", "private", str(self.stop))
        self.assertEqual(process.stdout.readline(), "ready\n")
        for scope, texts in (("1", ("ptrace_scope is 1", "sudo", "GPUMEMSHIM_START=off")), ("3", ("ptrace_scope is 3", "GPUMEMSHIM_START=off"))):
            script = f"mount -t tmpfs none /proc/sys/kernel && mkdir /proc/sys/kernel/yama && echo {scope} >/proc/sys/kernel/yama/ptrace_scope && exec \"$@\""
            inside = ("unshare", "-m", "sh", "-c", script, "sh", *NOBODY)
            if not works(*inside, "true"):
                self.skipTest("no namespace of mounts can be made here")
            self.check_refused(process.pid, *texts, gpumem=tools / "gpumemshim", before=inside)
        self.end(process)

    def test_a_filter_that_forbids_to_trace(self):
        process = self.start("sleep")
        self.check_refused(process.pid, "a seccomp filter", "SYS_PTRACE", preexec=forbid(PTRACE))
        self.end(process)

    def test_a_filter_on_what_is_not_needed(self):
        process = self.start("sleep")
        self.assertEqual(self.ask(self.setup.gpumem, "attach", process.pid, preexec=forbid(PROCESS_VM_READV))[0], 0)
        self.end(process)


class Containers(RightsTest):
    def start_inside(self, *options, script='exec "$@"'):
        inside = ("unshare", *options, "sh", "-c", script, "sh")
        if not works(*inside, "true"):
            self.skipTest(f"unshare {' '.join(options)} is not allowed here")
        process = self.start_process(*inside, hosts_test.HOSTS / "attach_host", "driver", str(self.stop))
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_one_that_does_not_see_the_library(self):
        library = hosts_test.BUILD / "lib" / "libgpumemshim.so"
        process = self.start_inside("-m", script=f'mount --bind /dev/null {library} && exec "$@"')
        self.check_refused(process.pid, "another file", "the same version", code=1)
        self.end(process)
        other = self.folder / "other"
        other.mkdir()
        shutil.copy(library, other)
        self.variables["GPUMEMSHIM_LIBRARY"] = str(other / library.name)
        process = self.start_inside("-m", script=f'mount -t tmpfs none {other} && exec "$@"')
        self.check_refused(process.pid, "in a container", "copy the library to the same path inside", code=1)
        self.end(process)

    def test_ids_of_its_own(self):
        """The process is number 1 inside, and what it holds is in the trace all the same."""
        process = self.start_inside("-p", "-f", "--mount-proc")
        (child,) = (pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()) or ("",)
        trace = self.folder / "run.gmtrace"
        self.assertIn("recording", self.ask(self.setup.gpumem, "attach", child, "-o", trace)[1])
        time.sleep(0.2)
        self.assertIn("paused", self.ask(self.setup.gpumem, "attach", "--stop", child)[1])
        self.assertIn("was there already", self.ask(self.setup.gpumem, "attach", child)[1])
        self.end(process)
        self.assertEqual(self.report()["devices"][0]["peak"]["total_bytes"], 5 << 20)


class OtherSorts(RightsTest):
    def check_sort(self, is_64, *texts):
        path = self.folder / "program"
        path.write_bytes(static_program(is_64))
        path.chmod(0o755)
        try:
            process = self.start_process(path)
        except OSError as error:
            self.skipTest(f"this kernel does not run it: {error}")
        self.check_refused(process.pid, *texts, "likely another process")
        self.assertIsNone(process.poll())

    def test_a_static_program(self):
        self.check_sort(True, "linked statically")

    def test_a_32_bit_program(self):
        self.check_sort(False, "32-bit")


if __name__ == "__main__":
    hosts_test.main()

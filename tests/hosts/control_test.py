# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Control: what `gpumemshim ctl`, gpumemshim.h and a signal do to a running program, seen in its trace; and that nobody who connects to its socket can
harm it.

    python tests/hosts/control_test.py --build build/release --hosts build/release/tests/hosts [-k marks]
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

import hosts_test
import history

MIB = 1 << 20


class ControlTest(hosts_test.HostTest):
    def setUp(self):
        super().setUp()
        self.runtime = self.folder / "run"
        self.runtime.mkdir(mode=0o700)

    def environment(self, preload=True, **more):
        return super().environment(preload, **{"XDG_RUNTIME_DIR": str(self.runtime), "SIMCUDA_LOG": str(self.folder / "log.tsv"), **more})

    def start(self, *lines, preload=True, host="host_control", prefix=(), **more):
        self.process = subprocess.Popen(
            [*prefix, str(hosts_test.HOSTS / host)],
            cwd=self.folder,
            env=self.environment(preload, **more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.end)
        self.tell(*lines)

    def tell(self, *lines):
        """Each line is carried out before this returns. Returns whether the last one found the program recording."""
        answer = ""
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
            self.assertIn(answer, ("ok recording=0", "ok recording=1"), line)
        return answer.endswith("=1")

    def end(self):
        """Returns what the program wrote to stderr."""
        if self.process.returncode is not None:
            return ""
        _, errors = self.process.communicate("quit\n", timeout=60)
        self.assertEqual(self.process.returncode, 0, errors)
        return errors

    def ctl(self, *arguments, code=0):
        done = subprocess.run(
            [self.setup.gpumem, "ctl", *map(str, arguments)], cwd=self.folder, env=self.environment(preload=False), capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def ctl_errors(self, *arguments):
        command = [self.setup.gpumem, "ctl", *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, env=self.environment(preload=False), capture_output=True, text=True, timeout=60).stderr

    def ask(self, *arguments):
        return json.loads(self.ctl(self.process.pid, *arguments, "--json"))

    def socket_path(self):
        return self.runtime / "gpumemshim" / f"{self.process.pid}.sock"

    def allocations(self, trace=None):
        events = history.events_of(self.setup, trace or self.the_trace())
        return [event["size_bytes"] for event in events if event["kind"] == "alloc"]


class Commands(ControlTest):
    def test_nothing_before_cuda_and_nothing_left_behind(self):
        self.start("push before")
        self.assertEqual(list(self.runtime.iterdir()), [])
        self.tell("init")
        mode = self.socket_path().stat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.socket_path().parent.stat().st_mode), 0o700)
        self.end()
        self.assertEqual(list(self.socket_path().parent.iterdir()), [])

    def test_status_flush_and_list(self):
        self.start("init", f"alloc {MIB}")
        flushed = self.ask("flush")
        # A sample may have been written since.
        self.assertTrue(0 < flushed["file_bytes"] <= pathlib.Path(flushed["file"]).stat().st_size)
        status = self.ask()
        self.assertEqual(
            (status["state"], status["pid"], status["program"], status["lost_events"]), ("recording", self.process.pid, "host_control", 0)
        )
        self.assertEqual(status["events"], flushed["events"])
        report = json.loads(subprocess.run([self.setup.gpumem, "report", "--json", status["file"]], capture_output=True, text=True, check=True).stdout)
        self.assertEqual(status["events"], sum(report["events"][layer] for layer in ("torch", "runtime", "driver")), "reports count the same")
        self.assertGreaterEqual(status["ring_bytes"], status["ring_used_bytes"])
        # The folder in /tmp is looked at too, where another program of this user may listen.
        self.assertIn(self.process.pid, [one["pid"] for one in json.loads(self.ctl("--json"))["processes"]])
        self.assertIn(f"process {self.process.pid}, recording", self.ctl())

    def test_the_process_that_started_it_will_do(self):
        launcher = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"]
        self.start("init", f"alloc {MIB}", prefix=launcher)
        status = self.ask()
        self.assertEqual((status["program"], status["state"]), ("host_control", "recording"))
        self.assertNotEqual(status["pid"], self.process.pid)
        self.assertIn(f"asking {status['pid']}, which it started", self.ctl_errors(self.process.pid))
        self.end()

    def test_of_several_that_it_started_one_is_to_be_named(self):
        two = "import subprocess, sys; p = [subprocess.Popen(sys.argv[1:], stdin=s) for s in (None, subprocess.PIPE)]; p[1].stdin.write(b'init\\n'); p[1].stdin.flush(); p[0].wait(); p[1].communicate(b'quit\\n')"
        self.start("init", prefix=[sys.executable, "-c", two])
        deadline = time.monotonic() + 60
        while len(json.loads(self.ctl("--json"))["processes"]) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertIn("but 2 that it started are: ", self.ctl(self.process.pid, code=2))
        self.process.communicate("quit\n", timeout=60)

    def test_dormant_to_the_end(self):
        self.start("init", f"alloc {MIB}", GPUMEMSHIM_START="off")
        self.assertEqual(self.end(), "")
        self.assertEqual(self.traces(), [])

    def test_refusals(self):
        self.start()
        self.assertIn("does not listen", self.ctl(self.process.pid, code=3))
        self.assertIn("no process", self.ctl(2**22 + 1, code=3))
        self.assertIn("not a process id", self.ctl("train.py", code=2))
        self.assertIn("unknown ctl command", self.ctl(1, "restart", code=2))
        self.assertIn("needs a text", self.ctl(1, "mark", code=2))
        self.tell("init", "pause")
        self.assertIn("recording is off", self.ctl(self.process.pid, "mark", "x", code=1))

    def test_switched_off(self):
        self.start("init", GPUMEMSHIM_CONTROL="0")
        self.assertEqual(list(self.runtime.iterdir()), [])
        self.assertNotIn("gpumemshim-ctl", self.threads())

    def threads(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return sorted((task / "comm").read_text().strip() for task in tasks.iterdir())

    def test_a_stale_socket_is_swept(self):
        self.start("init")
        path = self.socket_path()
        self.process.kill()
        self.process.communicate()
        self.assertTrue(path.exists())
        self.assertNotIn(f"process {self.process.pid},", self.ctl())
        self.assertFalse(path.exists())

    def test_a_forked_child_neither_answers_nor_removes_it(self):
        self.start("init", "fork")
        self.assertEqual(self.ask()["pid"], self.process.pid)

    def test_a_program_that_closes_every_descriptor(self):
        self.start("init", f"alloc {MIB}", "close", f"alloc {MIB}")
        started = time.monotonic()
        self.end()
        self.assertLess(time.monotonic() - started, 30)

    def test_unknown_settings_are_named_once(self):
        self.start("init", "init", GPUMEMSHIM_OUPUT="x")
        errors = self.end()
        self.assertEqual(errors.count("GPUMEMSHIM_OUPUT is not a setting of this version (GPUMEMSHIM_OUTPUT is)"), 1, errors)

    def test_a_signal_switches(self):
        self.start("init", f"alloc {MIB}", GPUMEMSHIM_SIGNAL="USR2")
        for expected in ("paused", "recording"):
            os.kill(self.process.pid, signal.SIGUSR2)
            deadline = time.monotonic() + 20
            while self.ask()["state"] != expected and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual(self.ask()["state"], expected)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "to be two other users needs root and setpriv")
class Places(ControlTest):
    def test_the_folder_is_somebody_elses(self):
        """Anybody may make /tmp/gpumemshim-UID. The program says so, and its socket is elsewhere, where it is found."""
        user = 1_000_000 + os.getpid()
        places = [pathlib.Path(place, f"gpumemshim-{user}") for place in ("/tmp", "/dev/shm", "/var/tmp")]
        for place in places:
            self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        for taken in (1, 3):
            with self.subTest(taken=taken):
                for place in places[:taken]:
                    shutil.rmtree(place, ignore_errors=True)
                    place.mkdir(mode=0o777)
                    os.chown(place, 65534, 65534)
                os.chmod(self.folder, 0o777)
                os.chmod(self.ring_folder, 0o777)
                as_user = ("setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups")
                self.start("init", f"alloc {MIB}", prefix=as_user, XDG_RUNTIME_DIR="", SIMCUDA_LOG="")
                findings = self.doctor()
                if taken == 1:
                    self.assertEqual(self.ask()["pid"], self.process.pid)
                    self.assertEqual(findings["control"]["health"], "ok")
                else:
                    self.assertIn(f"{places[0]} belongs to user 65534", self.ctl(self.process.pid, code=3))
                    self.assertIn(f"{places[0]} belongs to user 65534", findings["control"]["found"])
                errors = self.end()
                self.assertEqual(errors.count(f"gpumemshim: {places[0]} belongs to user 65534"), 1, errors)
                self.assertEqual([list(place.iterdir()) for place in places[:taken]], [[]] * taken)

    def doctor(self):
        command = [self.setup.gpumem, "doctor", "--json", str(self.process.pid)]
        done = subprocess.run(command, cwd=self.folder, env=self.environment(preload=False), capture_output=True, text=True, timeout=60)
        return {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}


class HostileCallers(ControlTest):
    def connect(self):
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(20)
        self.addCleanup(caller.close)
        for _ in range(1000):  # the queue of callers may be full
            try:
                caller.connect(str(self.socket_path()))
                break
            except BlockingIOError:
                time.sleep(0.02)
        return caller

    def answer(self, data):
        with self.connect() as caller:
            try:
                caller.sendall(data)
                return b"".join(iter(lambda: caller.recv(65536), b""))
            except (BrokenPipeError, ConnectionResetError):
                return b""

    def test_garbage_huge_and_silent(self):
        self.start("init", f"alloc {MIB}")
        self.assertTrue(self.answer(b"GET / HTTP/1.1\r\n\r\n").startswith(b"gpumemshim/1 error "))
        self.assertTrue(self.answer(b"gpumemshim/1 st\0tus\n").startswith(b"gpumemshim/1 error "))
        self.assertEqual(self.answer(os.urandom(1 << 20).replace(b"\n", b"x")), b"")
        silent = self.connect()
        half = self.connect()
        half.sendall(b"gpumemshim/1 sta")
        self.assertEqual(self.ask()["state"], "recording")
        silent.close()
        for _ in range(100):  # who leaves before the answer
            with self.connect() as caller:
                caller.sendall(b"gpumemshim/1 status\n")
        self.assertEqual(self.ask()["state"], "recording")
        self.tell(f"alloc {MIB}")
        self.end()
        self.assertEqual(self.allocations(), [MIB, MIB])

    def test_many_who_say_nothing_hold_nobody_up(self):
        """Many more than are listened to at a time."""
        self.start("init", f"alloc {MIB}")
        silent = [self.connect() for _ in range(60)]
        for _ in range(20):
            self.assertEqual(self.ask()["state"], "recording")
            silent.append(self.connect())
        self.end()

    def test_a_byte_now_and_then(self):
        """Whose time is up all the same, long before the line is too long."""
        self.start("init", f"alloc {MIB}")
        slow = self.connect()
        with self.assertRaises((BrokenPipeError, ConnectionResetError)):
            for _ in range(1000):
                slow.sendall(b"s")
                time.sleep(0.05)
        self.assertEqual(self.ask()["state"], "recording")
        self.end()

    def test_many_who_never_ask_do_not_hold_up_the_end(self):
        self.start("init")
        callers = []
        for _ in range(16):
            caller = socket.socket(socket.AF_UNIX)
            caller.setblocking(False)
            self.addCleanup(caller.close)
            if caller.connect_ex(str(self.socket_path())) == 0:
                callers.append(caller)
        self.assertGreater(len(callers), 4)
        started = time.monotonic()
        self.end()
        self.assertLess(time.monotonic() - started, 30)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_another_user_is_not_answered(self):
        self.start("init")
        os.chmod(self.folder, 0o755)
        os.chmod(self.runtime, 0o755)
        os.chmod(self.socket_path().parent, 0o755)
        os.chmod(self.socket_path(), 0o666)  # only what the kernel says of the caller is left
        script = (
            "import os, socket, sys\nos.setgid(65534); os.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n"
            f"s.connect({str(self.socket_path())!r})\ns.settimeout(20)\n"
            "try:\n    s.sendall(b'gpumemshim/1 status\\n'); data = s.recv(100)\nexcept OSError: data = b''\nsys.exit(1 if data else 0)"
        )
        self.assertEqual(subprocess.run([sys.executable, "-c", script], timeout=60).returncode, 0)
        self.assertEqual(self.ask()["state"], "recording")


if __name__ == "__main__":
    hosts_test.main()

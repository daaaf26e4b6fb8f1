# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""However a program ends: its output and its end are those without the recorder, and every call that the simulated driver logged is in the trace, or
in the trace and its ring.

    python tests/hosts/ending_table_test.py --build build/release --hosts build/release/tests/hosts
"""

import pathlib
import resource
import signal
import subprocess
import sys
import unittest

import hosts_test
import processes_test

# Where signals end a program by themselves. SIGKILL and the real-time ones too.
SIGNALS = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT XCPU XFSZ VTALRM PROF IO PWR SYS".split()

NUMBERED = [("exit", 0), ("exit", 3), ("exit", 255), ("_exit", 4), ("_Exit", 5), ("quick_exit", 6), ("exit_group", 7)]
PLAIN = """return at_quick_exit pthread_exit abort terminate throw noexcept null overflow divide illegal beyond-a-file alarm pipe file-too-large forbidden-call exec
    exec-fails exit-in-atexit _exit-in-atexit cuda-in-atexit abort-in-atexit _exit-in-destructor exit-in-handler _exit-in-handler again-in-handler
    jump-from-handler reset-device closed-streams killed-by-a-child before-a-child""".split()
ON_A_THREAD = [("exit", 6), ("_exit", 7), ("abort",), ("throw",), ("null",), ("overflow",), ("exec",), ("raise", int(signal.SIGTERM)), ("exit-in-atexit",)]

ENDINGS = [
    *((name, str(code)) for name, code in NUMBERED),
    *((name,) for name in PLAIN),
    *(("raise", str(int(getattr(signal, f"SIG{name}")))) for name in SIGNALS),
    ("raise", str(int(signal.SIGRTMIN) + 3)),
    *(("thread", *map(str, ending)) for ending in ON_A_THREAD),
]


class Endings(processes_test.ProcessTest):
    def end(self, ending, preload):
        environment = self.environment(preload, **({} if preload else {"SIMCUDA_LOG": ""}))
        no_core = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # noqa: E731
        return subprocess.run(
            [str(hosts_test.HOSTS / "endings_host"), *ending], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, preexec_fn=no_core
        )

    def compare_end(self, ending):
        bare, done = self.end(ending, False), self.end(ending, True)
        self.assertNotEqual(bare.returncode, 70, bare.stderr)
        theirs = [line for line in done.stderr.splitlines() if not line.startswith("gpumemshim:")]
        self.assertEqual((done.returncode, done.stdout, theirs), (bare.returncode, bare.stdout, bare.stderr.splitlines()))
        if ending == ("reset-device",):  # what a reset takes is one event of ours, and a free of each block in the log
            self.assertEqual(self.allocations(self.events_by_pid()), [11])
        else:
            self.compare(1)
        return bare.returncode

    def test_each(self):
        self.assertGreaterEqual(len(ENDINGS), 42)
        codes = set()
        for ending in ENDINGS:
            with self.subTest(" ".join(ending)):
                self.setUp()
                codes.add(self.compare_end(ending))
        self.assertGreater(len(codes), 30)
        print(f"  {len(ENDINGS)} endings, {len(codes)} different exit statuses")

    def test_none_is_left_out(self):
        names = subprocess.run([hosts_test.HOSTS / "endings_host", "--names"], env=self.environment(False), capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(set(names) - {ending[0] for ending in ENDINGS}, set())


if __name__ == "__main__":
    sys.argv[0] = str(pathlib.Path(__file__).resolve())
    hosts_test.main()

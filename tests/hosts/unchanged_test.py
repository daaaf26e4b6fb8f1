# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The program is unchanged: its descriptors, what its signals do, which are blocked, what is mapped, its limits, its files and its end are those without
the recorder, wherever it uses CUDA, whatever it closes and however it ends.

    python tests/hosts/unchanged_test.py --build build/release --hosts build/release/tests/hosts [--full]
"""

import itertools
import os
import pathlib
import resource
import subprocess
import sys

import hosts_test

FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")

PLACES = ["never", "once", "many", "threads", "in-a-child"]
CLOSINGS = ["none", "closerange", "kernel-closerange", "dup2", "standard-streams", "closing-child", "daemon"]
ENDINGS = "return exit _exit quick_exit abort term kill segv exec child-exits child-_exits child-execs".split()
ATTACHED = list(itertools.product(["attached"], CLOSINGS[:-1], ["return", "_exit", "term", "exec"]))
# What the recorder brings: itself, its unwinders, NVML, its ring.
OURS = ("libgpumemshim.so", "libunwind.so", "liblzma.so", "libgcc_s.so", "libnvidia-ml.so", ".ring")
TRIES = 10  # the device's sampler opens nine files when CUDA is used first, just when these programs look and open theirs
EVENTS = {"never": 0, "once": 3, "many": 12, "threads": 6, "in-a-child": 1, "attached": 2}  # in times of 240; of an attached one those that follow


def combinations():
    every = list(itertools.product(PLACES, CLOSINGS, ENDINGS)) + ATTACHED
    if FULL:
        return every
    # Each place with each closing, and each ending in its turn.
    pairs = itertools.product(PLACES, CLOSINGS)
    return [(*pair, ENDINGS[number % len(ENDINGS)]) for number, pair in enumerate(pairs)] + ATTACHED[:: len(ATTACHED) // 3]


class Unchanged(hosts_test.HostTest):
    def start(self, words, preload):
        folder = self.folder / f"program{len(list(self.folder.glob('program*')))}"
        folder.mkdir()
        environment = self.environment(preload, **{"XDG_RUNTIME_DIR": str(self.ring_folder), "GPUMEMSHIM_OUTPUT": str(self.folder / "run.%p.gmtrace")})
        no_core = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # noqa: E731
        return folder, subprocess.Popen(
            [str(hosts_test.HOSTS / "unchanged_host"), str(folder), *words], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=no_core,
        )  # fmt: skip

    def run_to_its_end(self, words, recorded):
        """What it printed, returned and left, without what is the recorder's."""
        attaches = recorded and words[0] == "attached"
        folder, process = self.start(words, recorded and not attaches)
        with process:
            if words[0] == "attached":
                first = iter(process.stdout.readline, "")
                before = "".join(itertools.takewhile(lambda line: line != "ready\n", first))
                if attaches:
                    self.attach(process)
                (folder / "go").touch()
                output, errors = process.communicate(timeout=120)
                output = before + output
            else:
                output, errors = process.communicate(timeout=120)
        lines = [line for line in output.splitlines() if not (" mapped " in line and any(name in line for name in OURS))]
        said = [line for line in errors.splitlines() if not line.startswith("gpumemshim:")]
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        return process.returncode, lines, said, files

    def attach(self, process):
        environment = self.environment(preload=False, XDG_RUNTIME_DIR=str(self.ring_folder), GPUMEMSHIM_RING_DIRECTORY=self.ring_folder)
        command = [str(self.setup.gpumem), "attach", str(process.pid), "-o", str(self.folder / "run.attached.gmtrace")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def differ_by_a_moment(self, bare, recorded):
        """A file that the recorder's threads read has the lowest number for some microseconds (docs/processes.md), in which we may look."""
        other = [line for line in set(bare[1]) ^ set(recorded[1]) if ": descriptor " not in line and " has number " not in line]
        return bare != recorded and not other and (bare[0], *bare[2:]) == (recorded[0], *recorded[2:])

    def compare(self, words):
        for _ in range(TRIES):
            # Of the try before: a ring that no append was made from is recovered below, and must be this one's.
            for left in (*self.folder.glob("run.*"), *pathlib.Path(self.ring_folder).glob("*.ring")):
                left.unlink()
            bare, recorded = self.run_to_its_end(words, False), self.run_to_its_end(words, True)
            if not self.differ_by_a_moment(bare, recorded):
                break
        self.assertNotEqual(bare[0], 70, bare[2])
        for part, (theirs, ours) in zip(("exit code", "output", "errors", "files"), zip(bare, recorded)):
            self.assertEqual(ours, theirs, part)

    def check_events(self, words):
        """None was lost by what the program closed."""
        expected = EVENTS[words[0]] * 240
        if expected and not list(self.folder.glob("run.*.gmtrace")):  # killed, or another image, before the first append
            rings = [*pathlib.Path(self.ring_folder).glob("*.ring"), *self.folder.glob("*.ring")]
            command = [str(self.setup.gpumem), "export", "trace", "-o", str(self.folder / "run.0.gmtrace"), *map(str, rings)]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        traces = sorted(self.folder.glob("run.*.gmtrace"))
        self.assertEqual(len(traces), 1 if expected else 0, traces)
        for trace in traces:
            answer = hosts_test.truth.report(self.setup, trace)
            self.assertEqual((answer["events"]["runtime"], answer["losses"]["total"]), (expected, 0))

    def test_each(self):
        tried = combinations()
        for words in tried:
            with self.subTest(" ".join(words)):
                self.setUp()
                self.compare(words)
                self.check_events(words)
        print(f"  {len(tried)} programs")

    def test_few_descriptors(self):
        """No number is free from 900 on."""
        for limit in (40, 250):
            with self.subTest(limit=limit):
                self.setUp()
                before = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
                self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
                _, process = self.start(("once", "closerange", "return"), True)
                output, errors = process.communicate(timeout=120)
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
                self.assertEqual(process.returncode, 2, errors)
                for i in range(12):
                    self.assertIn(f"own file {i} has 5 bytes", output)


class OwnDescriptors(hosts_test.HostTest):
    """What the recorder holds open while it records: all of it from 900 on, so that the program is given the numbers that it would get anyway."""

    def test_their_numbers(self):
        command = [str(hosts_test.HOSTS / "processes_host"), *f"alloc:3 print:ready await:{self.folder}/go".split()]
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment(XDG_RUNTIME_DIR=self.ring_folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        with process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            hosts_test.wait_for(lambda: self.traces())
            numbers = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
            (self.folder / "go").touch()
            process.communicate(timeout=60)
        self.assertLessEqual({number for number in numbers if number < 900}, {0, 1, 2})
        self.assertGreaterEqual(len({number for number in numbers if number >= 900}), 2)  # the trace, the control socket

    def test_the_control_socket_comes_back(self):
        """The program closed it with all others; `gpumemshim ctl` still finds it."""
        go_on = self.folder / "go"
        command = [str(hosts_test.HOSTS / "processes_host"), *f"alloc:3 closeall print:ready await:{go_on} alloc:2".split()]
        environment = self.environment(XDG_RUNTIME_DIR=self.ring_folder)
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            bare = self.environment(preload=False, XDG_RUNTIME_DIR=self.ring_folder)
            ask = lambda: subprocess.run([str(self.setup.gpumem), "ctl", str(process.pid), "status"], env=bare, capture_output=True, text=True, timeout=60).returncode == 0  # noqa: E731
            hosts_test.wait_for(ask)
            go_on.touch()
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(self.report()["events"]["runtime"], 5)


if __name__ == "__main__":
    sys.argv[0] = str(pathlib.Path(__file__).resolve())
    hosts_test.main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim attach` to Python programs that wait or work in odd places: a backward pass, DataLoader workers, a prompt. Their results are as if nothing had been,
and peak and end are PyTorch's own.

    python tests/e2e/attach_test.py --build build/release
"""

import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

import truth

SETUP = None
FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")


class AttachTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-attach-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "run.gmtrace"
        self.environment = {**truth.environment_of(truth.Case("none"), SETUP), "XDG_RUNTIME_DIR": str(self.folder)}

    def gpumem(self, *words):
        done = subprocess.run([SETUP.gpumem, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def attach(self, pid):
        (answer,) = json.loads(self.gpumem("attach", "--json", "-o", self.trace, pid))["processes"]
        return answer

    def check(self, counters):
        report = truth.report(SETUP, self.trace)
        (device,) = report["devices"]
        ours = [device[when][f"{what}_bytes"] for when in ("peak", "end") for what in ("allocated", "reserved")]
        self.assertEqual((ours, report["losses"]["total"]), (counters, 0))
        self.assertEqual([start["known"] for start in report["recording"]["existing"]], [True])


class Trainings(AttachTest):
    def run_training(self, way):
        command = [*SETUP.command(truth.PROGRAMS / "attach_training.py"), way, str(self.folder)]
        program = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        deadline = time.monotonic() + 120
        while not (self.folder / "ready").exists() and program.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        answer = self.attach(program.pid)  # simcuda/run becomes the program
        (self.folder / "attached").touch()
        output, errors = program.communicate(timeout=120)
        self.assertEqual((program.returncode, errors), (0, ""))
        result, counters = output.splitlines()
        self.check(json.loads(counters))
        for name in ("ready", "attached", "run.gmtrace"):
            (self.folder / name).unlink()
        return answer, result

    def test_in_a_backward_pass(self):
        """The main thread comes to tell what existed when the pass is over, and all numbers have it from the beginning."""
        answer, result = self.run_training("backward")
        self.assertEqual(answer["existing"], "awaited")
        # What the host added up of the two batches that are told apart: rows 96 to 159 of 64 numbers each.
        self.assertEqual(float(result), 64.0 * sum(range(96, 160)))

    def test_in_the_middle_of_steps(self):
        for _ in range(10 if FULL else 1):
            answer, result = self.run_training("steps")
            self.assertEqual((answer["existing"], result), ("known", "fine"))


class Prompt(AttachTest):
    """A program at a terminal that waits for a line."""

    def run_prompt(self, *command, prompt, ends_at_once=False, **more):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(command[0], command, self.environment | {"TERM": "dumb", "SIMCUDA_LIB": self.environment["SIMCUDA_LIB"], **more})
        self.addCleanup(os.close, terminal)

        def read_until(pattern):
            text, deadline = "", time.monotonic() + 60
            while not re.search(pattern, text) and time.monotonic() < deadline:
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        text += os.read(terminal, 4096).decode(errors="replace")
                    except OSError:  # it has ended
                        break
            return text

        def enter(line):
            os.write(terminal, line.encode() + b"\r")

        read_until(prompt)
        enter("import torch; kept = [torch.empty(3 << 20, device='cuda') for _ in range(3)]; print('re' + 'ady')")
        self.assertIn("ready", read_until("ready"))
        time.sleep(0.3)  # back at the prompt
        answer = self.attach(pid)
        lines = (
            "kept.append(torch.empty(7 << 20, device='cuda')); del kept[1:]",
            "c = torch.cuda; print('the', 'counters', [c.max_memory_allocated(), c.max_memory_reserved(), c.memory_allocated(), c.memory_reserved()], flush=True)",
            "import os; os._exit(7)",
        )
        for line in ["; ".join(lines)] if ends_at_once else lines:
            enter(line)
        text = read_until("no such text")
        counters = json.loads(re.search(r"the counters (\[[\d, ]+\])", text)[1])
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)
        self.check(counters)
        return answer

    def test_python(self):
        self.run_prompt(*SETUP.command("-i"), "-q", prompt=">>> ")

    def test_that_ends_at_once(self):
        """What existed is in the line that ends the program by `_exit`: nobody writes it to the file any more, and it is read from the ring."""
        self.run_prompt(*SETUP.command("-i"), "-q", prompt=">>> ", ends_at_once=True)

    def test_ipython(self):
        packages = self.packages_of_ipython()
        if packages is None:
            self.skipTest("no IPython for the Python of the tests was found (python3 -m pip install ipython)")
        self.run_prompt(*SETUP.command("-m"), "IPython", "--no-banner", "--no-confirm-exit", prompt=r"In \[1\]", PYTHONPATH=packages, IPYTHONDIR=str(self.folder / "ipython"))

    def packages_of_ipython(self):
        """Where the Python of the tests has it itself: ""; in another one of the same version: its folder."""
        ask = "import IPython, sys, pathlib; print('%d.%d' % sys.version_info[:2], pathlib.Path(IPython.__file__).parent.parent)"
        version = subprocess.run([SETUP.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=True).stdout.strip()
        for python in (SETUP.python, sys.executable):
            found = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
            if found.returncode == 0 and found.stdout.split()[0] == version:
                return found.stdout.split(maxsplit=1)[1].strip()
        return None


if __name__ == "__main__":
    truth.run_tests(globals())

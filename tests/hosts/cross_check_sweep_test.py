# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The cross-check with CUPTI over every program of tests/hosts and examples: each call that only one of the two saw has its cause. Prints for each
program what both saw, and what only one.

    python tests/hosts/cross_check_sweep_test.py --build build/release --hosts build/release/tests/hosts [--full] [--only WORD]

Without --full, the quick ones. Programs that need what is not installed are skipped, with the reason.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import cross_check_cases
import hosts_test
from hosts_test import truth

import libraries_test

FOLDER = pathlib.Path(__file__).resolve().parent
FULL, ONLY = False, ""


def missing_modules(python, names):
    ask = "import importlib.util as u, sys; print(*(name for name in sys.argv[1:] if u.find_spec(name) is None))"
    return subprocess.run([python, "-c", ask, *names], capture_output=True, text=True, check=True).stdout.split() if os.access(python, os.X_OK) else ["a Python"]


def shared_python():
    """(library, prefix) of the Python that runs this, where it has a shared library."""
    import sysconfig

    library = pathlib.Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")
    return (str(library), sys.base_prefix) if ".so" in library.name and library.exists() else None


class SweepTest(hosts_test.HostTest):
    with_libraries = None

    def setUp(self):
        super().setUp()
        self.python = str(truth.ROOT / ".venv" / "bin" / "python")

    def words(self, case):
        """The command of a case, or a reason why it cannot run here."""
        places = {"plugin": "libprocesses_plugin.so", "driver_plugin": "libunseen_plugin.so", "throws": "libhost_throws.so"}
        places = {name: str(hosts_test.HOSTS / file) for name, file in places.items()}
        places.update(stop=str(self.folder / "stop"), hosts=str(hosts_test.HOSTS), driver=str(self.folder / "other" / "libcuda.so.1"))
        if "{python_library}" in case.words:
            if shared_python() is None:
                return "this Python has no shared library"
            places["python_library"], places["python_home"] = shared_python()
        program, *rest = (word.format(**places) for word in shlex.split(case.words))
        if lacking := missing_modules(self.python, case.needs):
            self.python = (self.libraries() if FULL else None) or self.python
            if missing_modules(self.python, case.needs):
                return f"not installed: {', '.join(lacking)}"
        return self.command(program, rest)

    def libraries(self):
        """A Python with the libraries that examples need, made once; None where it cannot be had, with the reason printed."""
        if SweepTest.with_libraries is None:
            folder = tempfile.TemporaryDirectory(prefix="gpumemshim-libraries-")
            self.addClassCleanup(folder.cleanup)
            SweepTest.with_libraries = ""
            with contextlib.suppress(SystemExit):
                libraries_test.install(pathlib.Path(folder.name), self.python)
                SweepTest.with_libraries = str(pathlib.Path(folder.name) / "bin" / "python")
        return SweepTest.with_libraries

    def command(self, program, rest):
        if program.startswith("examples/") and program.endswith(".py"):
            ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if "parallel" in program else []
            return [str(truth.ROOT / "simcuda" / "run"), self.python, *ranks, str(truth.ROOT / program), *rest]
        if program.endswith(".py"):
            return [sys.executable, str(FOLDER / program), *rest]
        if program.startswith("examples/"):
            return [str(self.build_example(program)), *rest]
        return [str(hosts_test.HOSTS / program), *rest]

    def build_example(self, program):
        out = self.folder / "example"
        compiler = "cc" if program.endswith(".c") else "c++"
        cuda = (hosts_test.BUILD / "CMakeCache.txt").read_text().split("GPUMEM_CUDA_INCLUDE_FOUND:")[1].split("=", 1)[1].splitlines()[0]
        libraries = hosts_test.BUILD / "lib" / "simcuda"
        flags = ["-std=c++20"] if compiler == "c++" else []
        subprocess.run([compiler, *flags, f"-I{cuda}", f"-I{truth.ROOT / 'include'}", truth.ROOT / program, f"-L{libraries}", "-l:libcudart.so.13", "-ldl", "-o", out], check=True)
        return out

    def check(self, case):
        """The cross-check's answer for a case; None where no trace was written."""
        command = self.words(case)
        if isinstance(command, str):
            return command
        (self.folder / "other").mkdir()
        shutil.copy(hosts_test.BUILD / "lib" / "simcuda" / "libcuda.so.1", self.folder / "other" / "libcuda.so.1")
        more = {name: value.format(hosts=hosts_test.HOSTS, cuda=hosts_test.BUILD / "lib" / "simcuda") for name, value in case.environment.items()}
        places = {"GPUMEMSHIM_RING_DIRECTORY": self.ring_folder, "TMPDIR": str(self.folder), "SIMCUDA_LIB": str(hosts_test.BUILD / "lib" / "simcuda")}
        timer = threading.Timer(1.5, (self.folder / "stop").touch)
        timer.start()
        done = subprocess.run(
            [self.setup.gpumem, "doctor", "--cross-check", "--json", "--", *command],
            cwd=self.folder,
            env=self.environment(False, **{**places, **more}),
            input=case.stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=600,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        )
        timer.cancel()
        start = done.stdout.rfind('{\n  "schema_version"')
        self.assertGreaterEqual(start, 0, done.stderr[-3000:] + done.stdout[-3000:])
        return json.loads(done.stdout[start:])["cross_check"]

    def line(self, case, answer):
        def causes(seen_by):
            found = {}
            for row in answer["rows"]:
                if row["seen_by"] == seen_by:
                    found[row["cause"]] = found.get(row["cause"], 0) + row["calls"]
            return "".join(f", {cause} {calls}" for cause, calls in sorted(found.items()))

        states = ", ".join(process["state"] for process in answer["processes"]) or "no trace"
        environment = "".join(f"{name}={value} " for name, value in case.environment.items())
        return (f"  {environment}{case.words}: both {answer['both']}; only us {answer['only_us']}{causes('only us')}; "
                f"only CUPTI {answer['only_cupti']}{causes('only CUPTI')}; {states}")

    def expect(self, case, answer):
        rows = [row for row in answer["rows"] if row["cause"] == "unexplained"]
        self.assertEqual([f"{row['seen_by']}: {row['api']}" for row in rows], list(case.unexplained), rows)
        self.assertEqual(sum(row["other_size"] for row in answer["rows"]), 0, answer["rows"])
        if case.processes is not None:
            self.assertEqual(len(answer["processes"]), case.processes, answer["processes"])
        for process in answer["processes"]:
            self.assertIn(process["state"], case.states)
            self.assertEqual((process["dropped_records"], process["lost_records"], process["unknown_records"]), (0, 0, 0))
        if case.processes and "recording" not in case.states:  # of a killed one CUPTI may have delivered nothing
            self.assertEqual(answer["compared"], case.compared)

    def test_programs(self):
        cases = [case for case in cross_check_cases.everything() if (FULL or case.everyday or ONLY) and ONLY in case.words]
        for case in cases:
            with self.subTest(case.words, **case.environment):
                self.setUp()
                answer = self.check(case)
                if isinstance(answer, str):
                    print(f"  {case.words}: skipped: {answer}", flush=True)
                    continue
                print(self.line(case, answer), flush=True)
                self.expect(case, answer)

    def test_what_runs_on_a_real_gpu(self):
        """gpu_check's programs, rehearsed."""
        if not FULL:
            return
        if missing_modules(self.python, ("torch",)):
            print(f"  gpu_check --cross-check: skipped: no PyTorch in {self.python}")
            return
        output = self.folder / "gpu_check.json"
        command = [sys.executable, truth.ROOT / "scripts" / "gpu_check", "--cross-check", "--simulated", "--build", hosts_test.BUILD, "--output", output]
        done = subprocess.run(command, env=self.environment(False), capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = json.loads(output.read_text())["cross_check"]
        self.assertGreater(len(rows), 8)
        self.assertEqual({row["ok"] for row in rows}, {True})

    def test_no_program_is_left_out(self):
        programs = {file.name for file in hosts_test.HOSTS.iterdir() if file.is_file() and os.access(file, os.X_OK) and ".so" not in file.name}
        programs |= {f"examples/{file.relative_to(truth.ROOT / 'examples')}" for file in (truth.ROOT / "examples").rglob("*") if file.suffix in (".py", ".c", ".cc")}
        programs |= {file.name for file in FOLDER.glob("*_program.py")}
        cases = {case.program for case in cross_check_cases.everything()}
        self.assertEqual(programs - cases - set(cross_check_cases.LEFT_OUT), set())
        self.assertEqual(cases - programs, set())


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="")
    arguments, rest = parser.parse_known_args()
    global FULL, ONLY
    FULL, ONLY = arguments.full, arguments.only
    sys.argv[1:] = rest
    hosts_test.main()


if __name__ == "__main__":
    main()

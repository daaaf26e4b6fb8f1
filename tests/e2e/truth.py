# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Truth: what `gpumemshim report --json` says of a program must be exactly what PyTorch says of itself, device by device.

    python tests/e2e/truth.py --case gpt                  on simulated CUDA
    python tests/e2e/truth.py --case gpt --real           on this machine's GPU
    python tests/e2e/truth.py --all [--json FILE]

Runs a program of tests/e2e/programs under the recorder, reads the JSON line of PyTorch's numbers that it ends with, and compares. Exit 0 when
all are equal, 1 when one is not (each difference on a line), 77 when the case cannot run here (CTest's SKIP_RETURN_CODE). Standard library only:
scripts/gpu_check uses it on machines that have nothing else.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "e2e" / "programs"
QUICK_START = ROOT / "tests" / "e2e" / "quick_start"
SKIPPED = 77


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with its environment. `blocks`: PyTorch's allocator hands out blocks of its own, so the torch layer can be compared. Without it
    (cudaMallocAsync) only CUDA's own calls are seen, and what is compared is their live bytes."""

    program: str
    environment: dict = dataclasses.field(default_factory=dict)
    blocks: bool = True
    devices: int = 1


CASES = {
    "gpt": Case("gpt.py"),
    "conv": Case("conv.py"),
    "expandable": Case("gpt.py", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "malloc_async": Case("gpt.py", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, blocks=False),
    "graphs": Case("graphs.py"),
    "empty_cache": Case("empty_cache.py"),
    "oom_caught": Case("oom_caught.py"),
    "series": Case("gpt.py", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "GPUMEMSHIM_MAX_SIZE": "512k", "GPUMEMSHIM_ON_FULL": "rotate"}),
    "two_devices": Case("two_devices.py", devices=2),
    "pools_and_pins": Case("pools_and_pins.py"),
}

# PyTorch has no numbers of its own for these; history.py compares them with the simulated driver's log.
LOGGED = {
    "no_caching": Case("gpt.py", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, blocks=False),
    "pluggable": Case("pluggable.py", blocks=False),
}


@dataclasses.dataclass
class Setup:
    """Where the parts lie, and on what the program runs."""

    build: pathlib.Path
    python: str
    simulated: bool
    timeout_s: int = 240
    quick: bool = False  # PyTorch starts faster: quick_start/sitecustomize.py

    @property
    def gpumem(self):
        return str(self.build / "bin" / "gpumemshim")

    def command(self, program):
        prefix = [str(ROOT / "simcuda" / "run")] if self.simulated else []
        return [*prefix, self.python, str(program)]

    def recording(self, trace, *command, options=()):
        """The command under the recorder, its trace in `trace`."""
        return [self.gpumem, "run", "--force", *options, "-o", str(trace), "--", *command]


class Failure(Exception):
    """The case could not be brought to a comparison."""


def skip_without_torch(setup):
    """Ends the process with the reason where there is no Python with PyTorch to run programs with."""
    if not os.access(setup.python, os.X_OK):
        print(f"skipped: no PyTorch to run programs with ({setup.python} is missing). Run scripts/bootstrap, or pass --python")
        sys.exit(SKIPPED)


def setup_of_tests(parser=None):
    """(Setup on simulated CUDA, arguments, the rest for unittest.main) of a test program's command line. `parser` may know options of its own."""
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / ".venv" / "bin" / "python"))
    arguments, rest = parser.parse_known_args()
    setup = Setup(arguments.build.resolve(), arguments.python, simulated=True, timeout_s=800, quick=True)
    skip_without_torch(setup)
    return setup, arguments, [sys.argv[0], *rest]


def run_tests(module, rarer=()):
    """The main of a test program without options of its own: `module` is its globals(), whose SETUP is set. The tests in `rarer` are run with --full, and only then."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the rarer tests, instead of the everyday ones")
    module["SETUP"], arguments, (program, *rest) = setup_of_tests(parser)
    chosen = []
    for name, kind in sorted(module.items()):
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
            chosen += [f"{name}.{test}" for test in unittest.defaultTestLoader.getTestCaseNames(kind) if (test in rarer) == arguments.full]
    unittest.main(argv=[program, *rest, *([] if any(not word.startswith("-") for word in rest) else chosen)])


def environment_of(case, setup):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "GPUMEMSHIM_", "SIMCUDA_DEVICE"))}
    environment.update(case.environment)
    if setup.simulated:
        environment["SIMCUDA_DEVICES"] = str(case.devices)
        environment["GPUMEMSHIM_TEST_ALLOCATOR"] = str(setup.build / "tests" / "e2e" / "libe2e_allocator.so")
        environment["SIMCUDA_LIB"] = str(setup.build / "lib" / "simcuda")
    if setup.quick:
        # "python3" may be a version manager's script, which takes longer than what it starts.
        for name, folder in (("PYTHONPATH", QUICK_START), ("PATH", pathlib.Path(sys.executable).resolve().parent)):
            environment[name] = os.pathsep.join(filter(None, (str(folder), environment.get(name))))
    return environment


def environment_of_plans(setup, **more):
    """For `gpumemshim plan` and `gpumemshim sweep`, which describe their devices themselves: nothing of simcuda's but where it lies."""
    environment = environment_of(Case("none"), setup)
    return {**{name: value for name, value in environment.items() if not name.startswith("SIMCUDA_") or name == "SIMCUDA_LIB"}, **more}


def last_json_line(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise Failure("the program printed no JSON line:\n" + text[-2000:])


def run(command, setup, environment=None):
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=setup.timeout_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Failure(f"no end after {setup.timeout_s} s: {' '.join(command)}") from None
    except OSError as error:
        raise Failure(f"cannot start {command[0]}: {error.strerror}. Build first: scripts/build") from None
    if done.returncode:
        raise Failure(f"exit {done.returncode}: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def record(case, setup, trace):
    """Runs the program under the recorder. Returns PyTorch's numbers."""
    command = setup.recording(trace, *setup.command(PROGRAMS / case.program))
    return last_json_line(run(command, setup, environment_of(case, setup)))


def report(setup, trace, *options):
    return json.loads(run([setup.gpumem, "report", "--json", *options, str(trace)], setup))


# cudaMallocAsync's pool counts blocks rounded up, to a multiple that its driver chooses; programs ask for unrounded sizes.
POOL_ROUNDING = 512


def pairs_of_device(numbers, device, case, answer):
    """(name, what PyTorch says, what the report says, by how much PyTorch's may be larger) for one device."""
    peak, end = device.get("peak", {}), device.get("end", {})
    if case.blocks:
        yield "peak allocated", numbers["max_memory_allocated"], peak.get("allocated_bytes", 0), 0
        yield "peak reserved", numbers["max_memory_reserved"], peak.get("reserved_bytes", 0), 0
        yield "end allocated", numbers["memory_allocated"], end.get("allocated_bytes", 0), 0
        yield "end reserved", numbers["memory_reserved"], end.get("reserved_bytes", 0), 0
    else:
        slack = POOL_ROUNDING * answer["events"]["runtime"]
        yield "peak of live CUDA bytes", numbers["max_memory_allocated"], peak.get("total_bytes", 0), slack
        yield "live CUDA bytes at the end", numbers["memory_allocated"], end.get("total_bytes", 0), slack


def compare(numbers, answer, case):
    """A list of checks, each {name, expected, actual, ok}."""
    checks = []

    def check(name, expected, actual, slack=0):
        checks.append({"name": name, "expected": expected, "actual": actual, "ok": 0 <= expected - actual <= slack})

    reported = {device["device"]: device for device in answer["devices"]}
    for device in numbers["devices"]:
        for name, expected, actual, slack in pairs_of_device(device, reported.get(device["device"], {}), case, answer):
            check(f"device {device['device']}: {name}", expected, actual, slack)
    check("trace is complete", True, answer["complete"])
    check("events lost", 0, answer["losses"]["total"])
    check("torch events recorded", case.blocks, answer["events"]["torch"] > 0)
    check("PyTorch used memory at all", True, any(device["max_memory_allocated"] > 0 for device in numbers["devices"]))
    return checks


def run_case(name, setup, keep=None):
    """The result of a case as plain data: {case, ok, checks, ...}, or {case, skipped}, or {case, ok: False, error}."""
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="gpumemshim-truth-") as folder:
        trace = pathlib.Path(keep or folder) / f"{name}.gmtrace"
        try:
            numbers = record(case, setup, trace)
            if "skipped" in numbers:
                return {"case": name, "skipped": numbers["skipped"]}
            # The program's own calls are the runtime's; libraries that reach the driver by themselves are not PyTorch's to count.
            answer = report(setup, trace, *(() if case.blocks else ("--layer", "runtime")))
            checks = compare(numbers, answer, case)
        except Failure as failure:
            return {"case": name, "ok": False, "error": str(failure)}
        return {
            "case": name,
            "ok": all(check["ok"] for check in checks),
            "checks": checks,
            "torch": numbers,
            "events": answer["events"],
            "trace_bytes": trace.stat().st_size,
        }


def print_result(result):
    if "skipped" in result:
        print(f"{result['case']}: skipped: {result['skipped']}")
    elif "error" in result:
        print(f"{result['case']}: FAILED: {result['error']}")
    else:
        print(f"{result['case']}: {'ok' if result['ok'] else 'FAILED'} ({len(result['checks'])} checks)")
        for check in result["checks"]:
            if not check["ok"]:
                print(f"  {check['name']}: PyTorch says {check['expected']}, gpumemshim says {check['actual']}")


def arguments_of(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--case", choices=sorted(CASES))
    chosen.add_argument("--all", action="store_true")
    parser.add_argument("--real", action="store_true", help="on this machine's GPU instead of simulated CUDA")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="build tree (%(default)s)")
    parser.add_argument("--python", default=str(ROOT / ".venv" / "bin" / "python"), help="Python with torch (%(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="write the results there")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the traces in this folder")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = arguments_of(argv)
    setup = Setup(arguments.build.resolve(), arguments.python, simulated=not arguments.real)
    skip_without_torch(setup)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    results = []
    for name in [arguments.case] if arguments.case else CASES:
        results.append(run_case(name, setup, arguments.keep))
        print_result(results[-1])
        sys.stdout.flush()
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    if all("skipped" in result for result in results):
        return SKIPPED
    return 0 if all("skipped" in result or result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())

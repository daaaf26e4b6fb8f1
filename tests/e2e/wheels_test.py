# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Other versions of PyTorch: each unmodified wheel is installed, trains on simulated CUDA under the recorder, and must agree with the report.

    python tests/e2e/wheels_test.py --wheel 2.8.0 --build build/release

Each wheel goes into an environment of its own under the build tree (up to 2 GB), which is removed at the end; pip keeps the download in its cache.
What the wheel needs of other packages comes from .venv. Exit 77 where the wheel cannot be had, or this build has no runtime for it.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import unittest

import attribution_test
import late_start_test
import plan_test
import sweep_test
import truth

CASES = ("gpt", "conv", "expandable", "malloc_async", "graphs", "empty_cache", "oom_caught")
# The first PyTorch whose wheels on PyPI are built for CUDA 13.
FIRST_OF_CUDA13 = (2, 11)
SETUP = None


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(truth.SKIPPED)


def runtime_of(version):
    """The soname of the CUDA runtime that PyPI's wheel of this version is built for."""
    return "libcudart.so.13" if tuple(map(int, version.split(".")[:2])) >= FIRST_OF_CUDA13 else "libcudart.so.12"


def site_packages(environment):
    return next(environment.glob("lib/python3*/site-packages"))


def install(version, environment, python):
    """A virtual environment with this torch; everything else is looked up in the environment of `python`."""
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment)], check=True)
    pip = [python, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar", "off"]
    done = subprocess.run([*pip, f"torch=={version}"], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(environment, ignore_errors=True)
        skip(f"pip cannot install torch {version}: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")
    others = site_packages(pathlib.Path(python).parent.parent)
    (site_packages(environment) / "others.pth").write_text(f"{others}\n")


class WheelTest(unittest.TestCase):
    """One test a case; made in main()."""

    version = ""

    def check(self, name):
        result = truth.run_case(name, SETUP)
        truth.print_result(result)
        self.assertNotIn("skipped", result)
        self.assertTrue(result["ok"], result)
        self.assertEqual(result["torch"]["torch"].split("+")[0], self.version)


class Attribution(attribution_test.AttributionTest):
    """Modules, tensors and backward passes of this wheel: its layouts and names are not those of the others."""


class Plan(plan_test.Planned):
    """What is predicted with this wheel, and its kernels that find elements."""

    test_peak = plan_test.Peaks.test_the_peak_is_what_pytorch_counts
    test_data_that_decide = plan_test.Verdicts.test_data_that_decide


class Attached(unittest.TestCase):
    """`gpumemshim attach` to a training under this wheel: what existed before is in its allocator's snapshot."""

    run_program = late_start_test.LateStartTest.run_program
    check = late_start_test.LateStartTest.check
    test_attached = late_start_test.LateStartTest.test_attached
    test_attached_to_expandable_segments = late_start_test.LateStartTest.test_attached_to_expandable_segments


class Sweep(sweep_test.Swept):
    """Runs that are forked from one process, with this wheel."""

    test_rows = sweep_test.Answers.test_each_row_is_what_a_plan_of_it_alone_says
    test_a_run_finds_itself = sweep_test.Answers.test_a_run_finds_itself_as_in_a_process_of_its_own
    test_imports = sweep_test.Failures.test_imports_that_cannot_be_made_before_a_fork


def add_cases(names):
    for name in names:
        setattr(WheelTest, f"test_{name}", lambda self, name=name: self.check(name))


def arguments_of(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", required=True, help="version of torch, such as 2.8.0")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=str(truth.ROOT / ".venv" / "bin" / "python"), help="Python 3.11 with pip and PyTorch's dependencies (%(default)s)")
    parser.add_argument("--case", choices=CASES, action="append", help="run these only")
    parser.add_argument("--keep", action="store_true", help="leave the environment in place, and use it where it is")
    return parser.parse_known_args(argv)


def main(argv=None):
    arguments, rest = arguments_of(argv)
    global SETUP
    build = arguments.build.resolve()
    truth.skip_without_torch(truth.Setup(build, arguments.python, simulated=True))
    if not (build / "lib" / "simcuda" / runtime_of(arguments.wheel)).exists():
        skip(f"torch {arguments.wheel} needs {runtime_of(arguments.wheel)}, which this build does not simulate (its headers are missing: scripts/bootstrap --older-cuda)")
    environment = build / "wheels" / arguments.wheel
    if not (arguments.keep and environment.exists()):
        install(arguments.wheel, environment, arguments.python)
    SETUP = truth.Setup(build, str(environment / "bin" / "python"), simulated=True)
    attribution_test.SETUP = late_start_test.SETUP = plan_test.SETUP = sweep_test.SETUP = SETUP
    WheelTest.version = arguments.wheel
    add_cases(arguments.case or CASES)
    try:
        return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result.wasSuccessful() else 1
    finally:
        if not arguments.keep:
            shutil.rmtree(environment, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The hooks, built with the address and undefined-behaviour sanitizers, under an unmodified PyTorch: no sanitizer has a word to say, and what the trace says is
what PyTorch says of itself. The sanitizer's library is preloaded first, so Python's and PyTorch's own allocations are under it, too.

    python tests/sanitizers/torch_test.py --build build/asan [--others build/release] [--case gpt]

--others: a build whose gpumemshim and simulated CUDA are used. Exit code 1 where something was found, 77 where there is no PyTorch.
"""

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import truth  # noqa: E402

CASES = ("gpt", "conv", "expandable", "malloc_async", "graphs", "empty_cache", "oom_caught", "two_devices", "pools_and_pins", "series")
FOUND = 99
PRELOAD = 'LD_PRELOAD="$SANITIZED${LD_PRELOAD:+:$LD_PRELOAD}" exec "$@"'


@dataclasses.dataclass
class Sanitized(truth.Setup):
    """Records by a preload: gpumemshim run would put the recorder before the sanitizer's library."""

    preloads: str = ""
    reports: pathlib.Path = pathlib.Path()

    def recording(self, trace, *command, options=()):
        said = f"exitcode={FOUND}:log_path={self.reports}/report"
        variables = [f"SANITIZED={self.preloads}", f"GPUMEMSHIM_OUTPUT={trace}", "GPUMEMSHIM_QUIET=1", f"UBSAN_OPTIONS={said}:print_stacktrace=1",
                     f"ASAN_OPTIONS={said}:detect_leaks=0:alloc_dealloc_mismatch=0"]  # fmt: skip
        on_simcuda, *program = command
        return [on_simcuda, "env", *variables, "sh", "-c", PRELOAD, "sh", *program]


def library(compiler):
    found = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    return os.path.realpath(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", type=pathlib.Path, help="a build whose gpumemshim and simulated CUDA are used")
    parser.add_argument("--compiler", default="c++", help="that built --build")
    parser.add_argument("--case", action="append", choices=CASES)
    setup, arguments, _ = truth.setup_of_tests(parser)
    preloads = f"{library(arguments.compiler)}:{setup.build / 'lib' / 'libgpumemshim.so'}"
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="gpumemshim-sanitized-") as folder:
        sanitized = Sanitized((arguments.others or setup.build).resolve(), setup.python, True, 1500, preloads, pathlib.Path(folder))
        for name in arguments.case or CASES:
            result = truth.run_case(name, sanitized)
            truth.print_result(result)
            reports = sorted(pathlib.Path(folder).glob("report.*"))
            for report in reports:
                print(report.read_text(errors="replace")[:4000])
                report.unlink()
            wrong += bool(reports) or not result.get("ok", "skipped" in result)
    print(f"{wrong} of {len(arguments.case or CASES)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

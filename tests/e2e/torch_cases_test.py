# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""PyTorch's own tests of its CUDA allocator and streams (test/test_cuda.py): the cases that pass on simulated CUDA pass there under the recorder.

    python tests/e2e/torch_cases_test.py --build build/release [--file test_cuda.py] [--list]

The file is that of Debian's source package, fetched into build/torch_cases and not kept in the repository; GPUMEMSHIM_TORCH_CASES or --file name another version's.
Simulated CUDA computes no contents, so many cases fail on it: only what passes there is compared. `--list` prints those. Exit code 77 where the file or what
it imports cannot be had.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import same_outcomes
import truth

sys.path.insert(0, str(truth.ROOT / "scripts" / "lib"))
import debian_source  # noqa: E402

SOURCE = truth.ROOT / "scripts" / "requirements" / "torch_source.txt"
RELEASE = "trixie"
REQUIREMENTS = truth.ROOT / "scripts" / "requirements" / "torch_cases.txt"
CASE_S = 60
LIMIT_S = 3000


def skip(why):
    print(f"skipped: {why}")
    sys.exit(truth.SKIPPED)


def fetched(folder):
    """The file, of the version that is pinned."""
    path = folder / pathlib.Path(SOURCE.read_text().splitlines()[-1].split()[1]) / "test_cuda.py"
    if not path.exists():
        try:
            with tempfile.TemporaryDirectory(prefix="gpumemshim-cases-") as scratch:
                archive = debian_source.fetch_pinned(SOURCE, pathlib.Path(scratch), RELEASE)
                with tarfile.open(archive) as tar:
                    text = tar.extractfile(next(member for member in tar if member.name.endswith("/test/test_cuda.py"))).read()
        except (OSError, RuntimeError) as error:
            skip(f"PyTorch's test_cuda.py cannot be fetched ({str(error).splitlines()[-1]}). Name a copy: GPUMEMSHIM_TORCH_CASES=FILE")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return path


def imported(setup, folder):
    """A folder with what PyTorch's tests import and PyTorch does not bring."""
    target = folder / "packages"
    if not target.exists():
        command = [setup.python, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", "--target", target, "-r", REQUIREMENTS]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            skip(f"pip cannot install {REQUIREMENTS.name}: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")
    return target


class Cases:
    def __init__(self, setup, path, packages):
        self.setup, self.path, self.packages = setup, path, packages

    def run(self, _, recorded):
        """{case: outcome}. A case that ends the process has `ended`; the others go on in another."""
        with tempfile.TemporaryDirectory(prefix="gpumemshim-cases-") as folder:
            log = pathlib.Path(folder) / "log.txt"
            environment = {**truth.environment_of(truth.Case("none"), self.setup), "PYTHONPATH": str(self.packages), "PYTHONWARNINGS": "ignore"}
            command = self.setup.command(truth.PROGRAMS / "run_cases.py")
            if recorded:
                command = self.setup.recording(f"{folder}/run.%p.gmtrace", *command)
            before = None
            while True:
                done = subprocess.run([*command, self.path, log, str(CASE_S)], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
                text = log.read_text() if log.exists() else ""
                if done.returncode == 0 or text == before:
                    break
                before = text
            found = outcomes(text)
            if not found:
                skip(f"{self.path} cannot be run: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")
            return found


def outcomes(log):
    found = {}
    for words in map(str.split, log.splitlines()):
        found[words[1]] = words[2] if words[0] == "end" else "ended"
    return found


class PassingCases(Cases):
    """What passes without the recorder, as the first run without it says."""

    passing = None

    def run(self, name, recorded):
        found = super().run(name, recorded)
        if self.passing is None:
            self.passing = {case for case, outcome in found.items() if outcome == "passed"}
            print(f"  {len(found)} cases, {len(self.passing)} pass on simulated CUDA", flush=True)
        return {case: outcome for case, outcome in found.items() if case in self.passing}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=pathlib.Path, default=os.environ.get("GPUMEMSHIM_TORCH_CASES"), help="a file of test cases")
    parser.add_argument("--list", action="store_true", help="print the cases that pass without the recorder, and end")
    setup, arguments, _ = truth.setup_of_tests(parser)
    folder = truth.ROOT / "build" / "torch_cases"
    folder.mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(arguments.file).resolve() if arguments.file else fetched(folder)
    cases = PassingCases(setup, path, imported(setup, folder))
    if arguments.list:
        print("\n".join(sorted(cases.run(path.stem, False))))
        return 0
    return 0 if same_outcomes.report(same_outcomes.compare(cases.run, [path.stem])) else 1


if __name__ == "__main__":
    sys.exit(main())

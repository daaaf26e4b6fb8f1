# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""walk_test.py under every interpreter that is found, two at a time; says which were found and which not.

usage: walk_all.py <libshim_stack_walk_probe.so> CHECKS [SEED...]
"""

import concurrent.futures
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib"))
import interpreters  # noqa: E402


def run(python, seed):
    command = [python.path, str(HERE / "walk_test.py"), sys.argv[1], sys.argv[2], seed]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, env=interpreters.with_packages(python))


def main():
    pythons, seeds = interpreters.find(), sys.argv[3:] or ["1"]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(python, seed, pool.submit(run, python, seed)) for python in pythons for seed in seeds]
        for python, seed, job in jobs:
            done = job.result()
            print(f"{python.path}:\n{done.stdout.rstrip()[-6000:]}", flush=True)
            if done.returncode:
                failed += 1
                print(f"  FAILED with {done.returncode}, seed {seed}")
    print("not found here, so not tested:", ", ".join(interpreters.absent(pythons)) or "none")
    return 1 if failed or not pythons else 0


if __name__ == "__main__":
    sys.exit(main())

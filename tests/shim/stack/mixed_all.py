# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""mixed_frames_test.py under every interpreter that is found; says which were found and which not.

usage: mixed_all.py <libshim_stack_mixed_probe.so>
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib"))
import interpreters  # noqa: E402


def main():
    pythons = interpreters.find()
    failed = 0
    for python in pythons:
        command = [python.path, str(HERE / "mixed_frames_test.py"), sys.argv[1]]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, env=interpreters.with_packages(python))
        print(f"{python.path}:\n{done.stdout.rstrip()[-3000:]}", flush=True)
        failed += done.returncode != 0
    print("not found here, so not tested:", ", ".join(interpreters.absent(pythons)) or "none")
    return 1 if failed or not pythons else 0


if __name__ == "__main__":
    sys.exit(main())

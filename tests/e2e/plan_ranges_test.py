# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The range of `gpumemshim plan` has the truth in it: programs whose memory depends on values, data, refusals and other processes (programs/ranged.py), planned as they are, and
once more with what decides stated. No verdict "fits" is false, and most ranges are narrow.

    python tests/e2e/plan_ranges_test.py --build build/release          # a few
    python tests/e2e/plan_ranges_test.py --build build/release --full   # all of them; prints a table
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import truth

PROGRAM = truth.PROGRAMS / "ranged.py"
EVERYDAY = ["longest", "detected_many"]  # plan_test has two processes every day
NARROW, NARROW_CASES = 0.1, 20
CODES = {"fits": 0, "does_not_fit": 1, "unknown": 3, "too_close": 5, "fits_unless": 6}


def cases():
    """Of a module that needs PyTorch: by its text."""
    text = PROGRAM.read_text(encoding="utf-8")
    inside = text[text.index("CASES = {") : text.index('if __name__ == "__main__"')]
    functions = inside[inside.index("for function in (") + 17 : inside.index(")}")].replace("\n", " ").split(",")
    return [name.strip() for name in functions if name.strip()] + [part for part in inside.split('"')[1::2]]


def plan(setup, folder, case, **environment):
    steps = ["--steps", "all"] if environment else []
    done = subprocess.run([setup.gpumem, "plan", "--json", "--no-what-if", "-o", f"{folder}/", *steps, "--", setup.python, str(PROGRAM), case], cwd=folder,
                          env=truth.environment_of_plans(setup, TMPDIR=folder, **environment), capture_output=True, text=True, timeout=600, check=False)
    if not done.stdout.startswith("{"):
        raise truth.Failure(f"{case}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    answer = json.loads(done.stdout)
    if done.returncode != CODES[answer["verdict"]]:
        raise truth.Failure(f"{case}: exit code {done.returncode} for {answer['verdict']}")
    return answer


def judge(setup, case):
    """(what is wrong or "", relative width or None, a line)."""
    with tempfile.TemporaryDirectory(prefix="gpumemshim-ranges-") as folder:
        stated = plan(setup, folder, case, TRUTH="1", **({"SIMCUDA_CUDNN_WS": str(64 << 20)} if case == "unet" else {}))
        planned = plan(setup, folder, case)
    low, high, bounded = (planned["range"][key] for key in ("low_bytes", "high_bytes", "bounded"))
    real, capacity = stated["range"]["likely_bytes"], planned["device"]["memory_bytes"]
    real_fits = stated["verdict"] in ("fits", "fits_unless") or (stated["tight"] or {}).get("runs_through", False)
    wrong = []
    if not (low <= real and (high is None or real <= high)):
        wrong.append("the truth is outside")
    if planned["verdict"] == "fits" and not real_fits:
        wrong.append("it does not fit")
    if planned["verdict"] == "does_not_fit" and real <= capacity and real_fits:
        wrong.append("it fits")
    width = (high - low) / max(real, 1) if bounded else None
    upper = f"{high / 2**30:8.2f}" if high is not None else "no bound"
    line = f"{case:20} {planned['verdict']:13} {low / 2**30:8.2f} .. {upper}{' ' if bounded else '+'} truth {real / 2**30:8.2f}  {'open' if width is None else f'{width:.1%}':>6}"
    return ", ".join(wrong), width, line


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", help="these cases, by comma")
    setup, options = setup_of(parser)
    names = options.only.split(",") if options.only else cases() if options.full else EVERYDAY
    failures, widths = [], []
    for case in names:
        wrong, width, line = judge(setup, case)
        print(line, f"  WRONG: {wrong}" if wrong else "", flush=True)
        widths.append(width)
        if wrong:
            failures.append(case)
    narrow = sum(width is not None and width < NARROW for width in widths)
    print(f"{len(names) - len(failures)} of {len(names)} right; {narrow} ranges under {NARROW:.0%} wide")
    if options.full and narrow < NARROW_CASES:
        failures.append("narrow ranges")
    return 1 if failures else 0


def setup_of(parser):
    parser.add_argument("--build", type=pathlib.Path, default=truth.ROOT / "build" / "release")
    parser.add_argument("--python", default=str(truth.ROOT / ".venv" / "bin" / "python"))
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    setup = truth.Setup(options.build.resolve(), options.python, simulated=True)
    truth.skip_without_torch(setup)
    return setup, options


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())

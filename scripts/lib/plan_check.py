# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim plan` against the GPU that is here: the examples run for real under the recorder, and as a plan for a GPU of the same size and capability.

    rows = plan_check.check(build, python, simulated=False, machine=probe(...))

Each row: example, predicted and measured bytes allocated and reserved, errors in percent, ok (both within LIMIT_PERCENT).
"""

import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = (("train_gpt.py", ()), ("train_conv.py", ("--steps", "6")), ("train_vit.py", ("--batch-size", "32", "--steps", "4")))
LIMIT_PERCENT = 1.0


def output_of(command, fine=(0,)):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in fine:
        raise RuntimeError(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def measured(gpumem, command, simulated, folder):
    """Peaks of a real run, of the device that has the most."""
    trace = folder / "real.gmtrace"
    prefix = [ROOT / "simcuda" / "run"] * simulated
    output_of([gpumem, "run", "-q", "--force", "-o", trace, "--", *prefix, *command])
    devices = json.loads(output_of([gpumem, "report", "--json", trace]))["devices"]
    return max((device["peak"]["allocated_bytes"], device["peak"]["reserved_bytes"]) for device in devices)


def predicted(gpumem, command, machine, folder):
    options = ["--memory", str(machine["memory_bytes"]), "--capability", machine["compute_capability"], "--steps", "all", "--no-what-if", "--json"]
    plan = json.loads(output_of([gpumem, "plan", *options, "-o", folder / "plan.gmtrace", "--", *command], fine=(0, 1, 5, 6)))  # every verdict has a peak
    return plan["peak"]["allocated_bytes"], plan["peak"]["reserved_bytes"]


def row(name, found, expected):
    errors = [100 * (a - b) / b for a, b in zip(found, expected)]
    return {
        "example": name,
        "predicted": {"allocated_bytes": found[0], "reserved_bytes": found[1]},
        "measured": {"allocated_bytes": expected[0], "reserved_bytes": expected[1]},
        "error_percent": {"allocated": errors[0], "reserved": errors[1]},
        "ok": all(abs(error) <= LIMIT_PERCENT for error in errors),
    }


def check(build, python, simulated, machine):
    gpumem = build / "bin" / "gpumemshim"
    rows = []
    for name, options in EXAMPLES:
        command = [python, ROOT / "examples" / name, *options]
        with tempfile.TemporaryDirectory(prefix="gpumemshim-plan-check-") as folder:
            try:
                place = pathlib.Path(folder)
                rows.append(row(name, predicted(gpumem, command, machine, place), measured(gpumem, command, simulated, place)))
            except RuntimeError as error:
                rows.append({"example": name, "ok": False, "error": str(error)})
        print(describe(rows[-1]), flush=True)
    return rows


def describe(one):
    if "error" in one:
        return f"plan {one['example']}: FAILED: {one['error']}"
    errors = one["error_percent"]
    return f"plan {one['example']}: allocated {errors['allocated']:+.2f} %, reserved {errors['reserved']:+.2f} %{'' if one['ok'] else '  FAILED'}"

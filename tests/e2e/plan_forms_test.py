# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""No form in which a program decides by values that nobody knows makes `gpumemshim plan` say "fits" where the other way does not fit (programs/forms.py).

    python tests/e2e/plan_forms_test.py --build build/release          # three forms
    python tests/e2e/plan_forms_test.py --build build/release --full   # all, both ways; prints a table
"""

import argparse
import json
import subprocess
import sys
import tempfile

import truth
from plan_ranges_test import setup_of

sys.path.insert(0, str(truth.PROGRAMS))
PROGRAM = truth.PROGRAMS / "forms.py"
EVERYDAY = [("all", "not"), ("to_cpu", ""), ("token", "")]


def verdict(setup, form, way):
    with tempfile.TemporaryDirectory(prefix="gpumemshim-forms-") as folder:
        command = [setup.gpumem, "plan", "--json", "--no-what-if", "--device", "H100", "-o", f"{folder}/", "--", setup.python, str(PROGRAM), form, *([way] if way else [])]
        done = subprocess.run(command, env=truth.environment_of_plans(setup, TMPDIR=folder), capture_output=True, text=True, timeout=600, check=False)
    if not done.stdout.startswith("{"):
        raise truth.Failure(f"{form}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return json.loads(done.stdout)["verdict"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", help="these forms, by comma")
    setup, options = setup_of(parser)
    text = PROGRAM.read_text(encoding="utf-8")
    inside = text[text.index("FORMS = {") : text.index("\n}\n")]
    names = [line.split('"')[1] for line in inside.splitlines()[1:]]
    chosen = options.only.split(",") if options.only else names
    ways = [(name, way) for name in chosen for way in ("", "not")] if options.full or options.only else EVERYDAY
    wrong = 0
    for name, way in ways:
        found = verdict(setup, name, way)
        is_wrong = found in ("fits", "does_not_fit")
        wrong += is_wrong
        print(f"{name:20} {way:4} {found}{'  WRONG' if is_wrong else ''}", flush=True)
    print(f"{len(ways) - wrong} of {len(ways)} right, of {len(names)} forms")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

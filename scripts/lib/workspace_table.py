# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Rows for the table of measured sizes (docs/workspaces.md): the operations of workspace_cases.py on the GPU that is here and on simulated CUDA, compared.

    answer = workspace_table.measure(build, python, simulated=False, machine=probe(...), driver="580.82", quick=False, match="")
    answer["rows"], answer["left_out"]
    workspace_table.write(answer["rows"], path)

With `simulated` the part of the GPU is played by simulated CUDA with bounds for sizes: a rehearsal, whose rows say so and which no plan accepts.
"""

import collections
import datetime
import json
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ("library", "operation", "parameters", "bytes", "device", "capability", "version", "origin", "driver", "cuda", "torch", "date")


class Failure(Exception):
    """A measuring program did not end well."""


def difference(on_gpu, reference):
    """-> what was asked for on the GPU and not on the simulation, in order; and what on the simulation alone."""
    left = collections.Counter(reference)
    extra = []
    for size in on_gpu:
        if left[size] > 0:
            left[size] -= 1
        else:
            extra.append(size)
    return extra, sorted(left.elements())


def sizes_of(asked, on_gpu, reference):
    """[(question, bytes)] where the answer is unambiguous, else None."""
    extra, missing = difference(on_gpu, reference)
    if len(asked) == 1 and asked[0][1] == "attention" and len(extra) == len(missing) == 1 and extra[0] > missing[0]:
        return [(asked[0], extra[0] - missing[0])]  # in one block with what PyTorch's cudnn-frontend needs itself
    if not asked or missing:
        return None
    if not extra:
        return [(question, 0) for question in asked]
    if len(asked) == 1 and len(set(extra)) == 1:
        return [(asked[0], extra[0])]
    return list(zip(asked, extra)) if len(asked) == len(extra) else None


def compare(on_gpu, reference):
    """-> ({(library, operation, parameters): bytes}, [{"name", "why"}])"""
    found, left_out = {}, []
    expected = {case["name"]: case for case in reference["cases"]}
    for case in on_gpu["cases"]:
        other = expected[case["name"]]
        error = case.get("error") or other.get("error")
        pairs = None if error else sizes_of([tuple(key) for key in other["asked"]], case["allocations"], other["allocations"])
        if pairs is None:
            left_out.append({"name": case["name"], "why": error or ("asked nothing that is new" if not other["asked"] else "not one size for each question"),
                             **({} if error else {"allocations": case["allocations"], "simulated": other["allocations"], "asked": other["asked"]})})
            continue
        for key, size in pairs:
            found[key] = max(found.get(key, 0), size)
    return found, left_out


def rows_of(found, versions, machine, driver, simulated):
    rest = {"device": machine["device"], "capability": machine["compute_capability"], "origin": "simulated" if simulated else "measured", "driver": driver or "-",
            "cuda": versions["cuda"], "torch": versions["torch"], "date": datetime.date.today().isoformat()}
    rows = []
    for (library, operation, parameters), size in sorted(found.items()):
        version = versions["cudnn"] if library == "cuDNN" else versions["cuda"]
        rows.append({"library": library, "operation": operation, "parameters": parameters, "bytes": size, "version": version, **rest})
    return rows


def run_cases(command, environment, options):
    with tempfile.TemporaryDirectory(prefix="gpumemshim-workspaces-") as folder:
        path = pathlib.Path(folder) / "answer.json"
        words = [*map(str, command), str(HERE / "measure_workspaces.py"), str(path), *options]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode or not path.exists():
            raise Failure(f"exit {done.returncode}: {' '.join(words)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
        return json.loads(path.read_text(encoding="utf-8"))


def measure(build, python, simulated, machine, driver, quick=False, match=""):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "PYTORCH_", "SIMCUDA_", "LD_PRELOAD"))}
    options = ["--quick"] * quick + [f"--match={match}"] * bool(match)
    major, minor = machine["compute_capability"].split(".")
    device = {"SIMCUDA_NAME": machine["device"], "SIMCUDA_CC": f"{major}{minor}", "SIMCUDA_SMS": str(machine["multiprocessors"]),
              "SIMCUDA_MEM_MB": str(machine["memory_bytes"] >> 20), "SIMCUDA_OVERCOMMIT": "1", "SIMCUDA_MODULE_KB": "2048"}
    simulation = [build / "share" / "gpumemshim" / "simcuda" / "run", "--lib", build / "lib" / "simcuda", "--", python]
    reference = run_cases(simulation, {**plain, **device, "SIMCUDA_WORKSPACES": "none"}, options)
    on_gpu = run_cases(simulation, {**plain, **device, "SIMCUDA_WORKSPACES": "bound", "SIMCUDA_WORKSPACE_TABLE": os.devnull}, options) if simulated else run_cases([python], plain, options)
    found, left_out = compare(on_gpu, reference)
    found.update({("CUDA", "context", ""): on_gpu["context_bytes"]})
    return {"rows": rows_of(found, on_gpu["versions"], machine, driver, simulated), "left_out": left_out}


def write(rows, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(COLUMNS)] + ["\t".join(str(row[column]) for column in COLUMNS) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

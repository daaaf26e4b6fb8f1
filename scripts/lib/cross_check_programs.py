# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The recorder held against this machine's CUPTI: `gpumemshim doctor --cross-check` on programs that use memory in each way, and beside torch.profiler.

    rows = cross_check_programs.check(build, python, simulated=False)

Each row: program, what both saw and what only one, the causes, the state of CUPTI, ok: every difference has a known cause; beside the profiler, that it
got its events and the program ended well.
"""

import json
import subprocess

import truth

CASES = {
    **{name: truth.CASES[name] for name in ("gpt", "conv", "expandable", "malloc_async", "graphs", "empty_cache", "pools_and_pins")},
    "no_caching": truth.LOGGED["no_caching"],
}
PROFILED = {"torch.profiler from the start": "first", "torch.profiler later": "later"}


def run(setup, case, *options):
    """(exit code, the answer, the program's own last line of JSON)."""
    command = [setup.gpumem, "doctor", "--cross-check", "--json", "--", *setup.command(truth.PROGRAMS / case.program), *options]
    done = subprocess.run(command, env=truth.environment_of(case, setup), capture_output=True, text=True, timeout=setup.timeout_s, stdin=subprocess.DEVNULL)
    start = done.stdout.rfind('{\n  "schema_version"')
    if start < 0:
        raise truth.Failure(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done, json.loads(done.stdout[start:])["cross_check"], done.stdout[:start]


def row(name, answer, ok, more=None):
    causes = {}
    for each in answer["rows"]:
        if each["seen_by"] != "both":
            key = f"{each['seen_by']}: {each['cause']}"
            causes[key] = causes.get(key, 0) + each["calls"]
    unexplained = [each for each in answer["rows"] if each["cause"] == "unexplained"]
    counts = {key: answer[key] for key in ("both", "only_us", "only_cupti", "unexplained")}
    return {"program": name, "ok": ok, **counts, "other_size": sum(each["other_size"] for each in answer["rows"]), "causes": causes,
            "unexplained_rows": unexplained, "processes": answer["processes"], **(more or {})}


class Rows(list):
    """Prints each as it comes."""

    def append(self, each):
        super().append(each)
        print(f"{'ok' if each['ok'] else 'FAILED':6} {each['program']}: {each.get('error') or summary(each)}", flush=True)


def check(build, python, simulated):
    setup = truth.Setup(build, python, simulated)
    rows = Rows()
    for name, case in CASES.items():
        try:
            done, answer, _ = run(setup, case)
            rows.append(row(name, answer, done.returncode == 0))
        except truth.Failure as failure:
            rows.append({"program": name, "ok": False, "error": str(failure)})
    for name, order in PROFILED.items():
        try:
            done, answer, printed = run(setup, truth.Case("profiled.py"), order)
            profiled = truth.last_json_line(printed)
            fine = profiled["addmm"] > 0 and answer["unexplained"] == 0 and "The command" not in done.stderr
            rows.append(row(name, answer, fine, {"profiler": profiled}))
        except truth.Failure as failure:
            rows.append({"program": name, "ok": False, "error": str(failure)})
    return rows


def summary(each):
    causes = "".join(f"; {cause} {calls}" for cause, calls in sorted(each["causes"].items()))
    states = ", ".join(sorted({process["state"] for process in each["processes"]})) or "no trace"
    return f"{each['both']} seen by both{causes}; CUPTI: {states}"

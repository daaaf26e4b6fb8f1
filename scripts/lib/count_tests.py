# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""count_tests.py RESULTS_DIR: sums up a test run, `N passed, N failed, N skipped` alone on the last line.

Before it the ten slowest tests. Reads, in the folder and those in it, what ctest wrote (--output-junit, one XML file a suite) and what scripts/test did: NAME.outcome for what is no
ctest test, NAME.stage with the name of a stage that failed (a build, or ctest itself). A skipped test is named with its reason. Exit 1 when a test
or a stage failed, or when no test ran at all.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as xml

SLOWEST = 10


def skip_reason(case):
    """What the test said. GoogleTest prints `file:line: Skipped` and the message below it; ctest has a word of its own."""
    text = "".join(node.text or "" for node in case.iter("system-out"))
    reported = re.search(r": Skipped\n(.*?)(?:\n\n|\n\[|$)", text, re.S) or re.search(r"(?im)^.*skip(?:ped|ping)?:\s*(.+)$", text)
    if reported and reported.group(1).strip():
        return " ".join(reported.group(1).split())
    return next((node.get("message") for node in case.iter("skipped")), None) or "no reason given"


def outcome(case):
    if case.find("failure") is not None or case.get("status") == "fail":
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def main():
    results = pathlib.Path(sys.argv[1])
    failed_stages = [note.read_text().strip() for note in sorted(results.rglob("*.stage"))]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    seconds = {}
    for report in sorted(results.rglob("*.xml")):
        for case in xml.parse(report).getroot().iter("testcase"):
            kind = outcome(case)
            counts[kind] += 1
            seconds[case.get("name")] = float(case.get("time") or 0)
            if kind == "failed":
                print(f"failed: {report.stem}: {case.get('name')}")
            elif kind == "skipped":
                print(f"skipped: {report.stem}: {case.get('name')}: {skip_reason(case)}")
    for note in sorted(results.rglob("*.outcome")):
        kind = note.read_text().strip()
        counts[kind] += 1
        if kind == "failed":
            print(f"failed: {note.stem}: see build/logs/{note.stem}.log")
    for stage in failed_stages:
        print(f"failed stage: {stage}")
    # A stage that broke without one failed test to its name (a build that stopped, a crashed ctest) must still count.
    if failed_stages and not counts["failed"]:
        counts["failed"] = len(failed_stages)
    slowest = sorted(seconds, key=seconds.get, reverse=True)[:SLOWEST]
    if slowest:
        print("slowest: " + ", ".join(f"{name} {seconds[name]:.0f} s" for name in slowest))
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""count_tests.py RESULTS_DIR [FAILED_STAGE...]: sums up a test run, `N passed, N failed, N skipped` alone on the last line.

Reads what ctest wrote (--output-junit, one XML file a preset) and the *.outcome files of scripts/test. A skipped test is named with its
reason. Exit 1 when a test failed, when a stage named on the command line did (a build, or ctest itself), or when no test ran at all.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as xml


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
    results, failed_stages = pathlib.Path(sys.argv[1]), sys.argv[2:]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for report in sorted(results.glob("*.xml")):
        for case in xml.parse(report).getroot().iter("testcase"):
            kind = outcome(case)
            counts[kind] += 1
            if kind == "failed":
                print(f"failed: {report.stem}: {case.get('name')}")
            elif kind == "skipped":
                print(f"skipped: {report.stem}: {case.get('name')}: {skip_reason(case)}")
    for note in sorted(results.glob("*.outcome")):
        kind = note.read_text().strip()
        counts[kind] += 1
        if kind == "failed":
            print(f"failed: {note.stem}: see build/logs/{note.stem}.log")
    for stage in failed_stages:
        print(f"failed stage: {stage}")
    # A stage that broke without one failed test to its name (a build that stopped, a crashed ctest) must still count.
    if failed_stages and not counts["failed"]:
        counts["failed"] = len(failed_stages)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

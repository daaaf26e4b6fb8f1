# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How many of the claims that a report makes are right, and how many of the truths it finds, by kind of claim: on all programs whose truth is known (tests/e2e/leaks, tests/e2e/claims).

    python tests/e2e/claims_test.py --build build/release [--full]
    python tests/e2e/claims_test.py --build build/release --table       # docs/claims.md
    python tests/e2e/claims_test.py --build build/release --table NAME...

docs/claims.md says how each is counted. A claimed saving is right where the program, run with the remedy (claims/mended.py), has it within 5 %.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import truth

SETUP = None
FULL = False
HERE = pathlib.Path(__file__).resolve().parent
MENDED = HERE / "claims" / "mended.py"
FILES = [path for folder in ("leaks", "claims") for path in sorted((HERE / folder).glob("*.py")) if path.name not in ("registry.py", "mended.py")]
# What a quick run looks at: a program of each kind.
QUICK = ("activations_of_all_explained_images", "a_pool_for_the_graph_of_each_resolution", "gradients_in_the_validation", "a_linear_layer_that_is_too_large", "an_index_of_parts_that_is_built_and_searched")
REPEATED = ("activations_of_all_explained_images", "outputs_in_a_variable_of_the_class", "logits_of_ever_more_tokens", "a_pool_for_the_graph_of_each_resolution", "gradients_in_the_validation",
            "distances_by_broadcasting", "a_smaller_batch_inside_the_handler", "shadows_of_all_parameters", "a_cache_by_bytes", "transitions_in_a_deque_of_forty")
REPEATS = 10
TOLERANCE = 0.05
ROUNDING = 2 << 20  # a page: what PyTorch reserves is whole ones
KINDS = {"growing": "a line keeps growing", "kept by": "who keeps what grows", "reserved by": "why more is reserved than allocated", "lives too long": "what need not be alive at the peak",
         "out of memory": "why a request failed", "fragmentation": "headline FRAGMENTED", "silence": "nothing is wrong"}


@dataclasses.dataclass
class Program:
    path: pathlib.Path
    name: str
    kind: str = "sound"
    line: tuple = ()
    also: tuple = ()  # lines that may be called growing besides
    keeper: str = ""
    cause: str = ""
    never: str = ""
    capacity_mb: int = 0
    twin: bool = False

    @property
    def truths(self):
        """What an answer should say: kinds of claims, and for the lines of tests/e2e/leaks, each of which is to be found, what stands on them."""
        if self.path.parent.name == "leaks":
            return self.line or ["silence"]
        return {"growing": ["growing", "kept by"], "reserved": ["reserved by"], "fragmented": ["fragmentation", "reserved by"], "lives": ["lives too long"], "oom": ["out of memory"], "sound": ["silence"]}[self.kind]


@dataclasses.dataclass
class Claim:
    kind: str
    says: str
    right: bool
    finds: str = ""  # which of the truths


def programs(names=()):
    """Those of all files, by the lists that they print; of these names alone where some are given."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if names and not any(name in text for name in names):
            continue
        for name, known in truth.last_json_line(truth.run(SETUP.command(path), SETUP, environment())).items():
            if names and name not in names:
                continue
            if isinstance(known, dict):
                yield Program(path, name, **{field: tuple(value) if isinstance(value, list) else value for field, value in known.items() if field != "thread"})
            else:  # leaks: expected lines, lines that may grow besides, iterations
                yield Program(path, name, "growing" if known[0] else "sound", tuple(known[0]), tuple(known[1]))


def environment(program=None):
    more = {"SIMCUDA_CAPACITY_MB": str(program.capacity_mb)} if program and program.capacity_mb else {}
    return {**truth.environment_of(truth.Case("none"), SETUP), **more}


class Outcome:
    """A program, recorded once, and what is claimed of it."""

    def __init__(self, program, folder, repeat=0):
        self.program = program
        trace = pathlib.Path(folder) / f"{program.path.stem}.{program.name}.{repeat}.gmtrace"
        if not trace.exists():
            command = SETUP.recording(trace, *SETUP.command(program.path), program.name)
            subprocess.run(command, env=environment(program), capture_output=True, timeout=SETUP.timeout_s, stdin=subprocess.DEVNULL, check=program.kind != "oom")
        asking = truth.environment_of_plans(SETUP, GPUMEMSHIM_SIMCUDA=str(truth.ROOT / "simcuda"), GPUMEMSHIM_INTERPRETER=SETUP.python)
        self.report = json.loads(truth.run([SETUP.gpumem, "report", "--json", str(trace)], SETUP, asking))
        leaks = subprocess.run([SETUP.gpumem, "leaks", "--check", "--json", str(trace)], env=asking, capture_output=True, text=True, timeout=SETUP.timeout_s)
        self.leaks, self.check = json.loads(leaks.stdout), leaks.returncode
        self.mended = {}

    @functools.cached_property
    def claims(self):
        return [claim for claims in (self.growth, self.reserved, self.lives, self.oom, self.silence) for claim in claims()]

    def peaks(self, remedy):
        """PyTorch's own, of the program run with the remedy; None where it does not get to its end."""
        if remedy not in self.mended:
            command = [*SETUP.command(MENDED), remedy, str(self.program.path), self.program.name]
            done = subprocess.run(command, env=environment(self.program), capture_output=True, text=True, timeout=SETUP.timeout_s, stdin=subprocess.DEVNULL)
            self.mended[remedy] = None if done.returncode else truth.last_json_line(done.stdout)
        return self.mended[remedy]

    def saves(self, remedy, what, peak, peak_with):
        """Whether the remedy lowers a peak as much as is claimed, by a run of the program with it."""
        mended = self.peaks(remedy)
        return mended is not None and abs((peak - mended[what]) - (peak - peak_with)) <= max(TOLERANCE * (peak - mended[what]), ROUNDING)

    def rows(self):
        for place in (*self.leaks["devices"], self.leaks["host"]):
            yield from (row for row in place.get("leaks", []) if row["status"] == "growing")

    def growth(self):
        lines = self.program.path.read_text(encoding="utf-8").splitlines()
        for row in self.rows():
            line = lines[row["line"] - 1].strip() if row["file"] == str(self.program.path) else f"{row['file']}:{row['line']} ({row['kind']})"
            owner = row["owner_path"] or ""
            names = set(re.findall(r"\w+", owner))
            # Known by the line that allocates, by a line that may keep it, or by a variable that was seen to.
            known = [text for text in (*self.program.line, *self.program.also) if text in line or text in (row["candidate_code"] or "") or names & set(re.findall(r"^(\w+)[.\[]", text))]
            grows = self.program.kind in ("growing", "oom")
            finds = known[0] if known and known[0] in self.program.truths else "growing"
            right = bool(known) and (grows or known[0] in self.program.also)
            yield Claim("growing", f"{row['site'] or row['kind']}, {row['bytes_per_iteration']} B", right, finds)
            if owner:
                keepers = set(self.program.keeper.split()) or {name for text in self.program.line for name in re.findall(r"\w+", text)}
                yield Claim("kept by", row["owner"], right and bool(names & keepers), "kept by")

    def reserved(self):
        told = self.report["what_if"] or {}
        recorded = (told.get("recorded") or {}).get("peak_reserved_bytes", 0)
        for change in told.get("changes") or []:
            right = self.saves(change["change"] if change["change"] != "largest_first" else "own", "reserved", recorded, change["peak_reserved_bytes"])
            yield Claim("reserved by", f"{change['change']}: {change['peak_reserved_bytes']} B instead of {recorded} B", right, "reserved by" if change["change"] == self.program.cause else "")
        action = self.report["verdict"]["action"]
        if "expandable_segments" in action and "would reserve" in action:
            setting = "expandable_segments"
            right = self.saves(setting, "reserved", recorded, told["other"]["peak_reserved_bytes"])
            yield Claim("reserved by", f"{setting}: {told['other']['peak_reserved_bytes']} B instead of {recorded} B", right, "reserved by" if setting == self.program.cause else "")
        if self.report["verdict"]["kind"] == "fragmented":
            yield Claim("fragmentation", self.report["verdict"]["problem"], self.program.kind == "fragmented", "fragmentation")

    def lives(self):
        for remedy in self.report["remedies"]:
            peak = max(device["peak"]["allocated_bytes"] for device in self.report["devices"])
            generic = remedy["kind"] in ("gradients_in_forward", "foreach_temporaries")
            own = self.program.twin and (self.program.cause == remedy["kind"] or not generic)
            known = own or generic
            right = known and self.saves("own" if own else remedy["kind"], "allocated", peak, remedy["peak_without_bytes"])
            yield Claim("lives too long", f"{remedy['cause']}: {remedy['peak_without_bytes']} B instead of {peak} B", right, "lives too long" if remedy["kind"] == self.program.cause else "")

    def oom(self):
        for failure in [failure for failure in self.report["ooms"] if failure["final"]][-1:]:
            said = " ".join([failure["cause"], *(f"{action['action']} ({action['evidence']})" for action in failure["actions"])])
            wrong = self.program.kind != "oom" or (self.program.never and re.search(self.program.never, said, re.I))
            # A setting that is said to be enough is so where the program gets to its end with it.
            if "expandable_segments" in said and self.peaks("expandable_segments") is None:
                wrong = True
            right = not wrong and bool(re.search(self.program.cause, said, re.I))
            yield Claim("out of memory", said, right, "out of memory" if right else "")

    def silence(self):
        is_loud = any(self.rows()) or self.report["verdict"]["kind"] not in ("nothing", "fits", "nearly_full")  # what is nearly full is
        if not is_loud and self.check in (0, 7) and self.program.kind == "sound":
            yield Claim("silence", "nothing", True, "silence")

    def missed(self):
        found = [claim.finds for claim in self.claims if claim.right]
        return [wanted for wanted in self.program.truths if wanted not in found]


def outcomes(wanted, folder, repeats=1, claims=True):
    def outcome(program, repeat):
        found = Outcome(program, folder, repeat)
        if claims:
            found.claims  # which runs mended programs
        return found

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(outcome, [program for program in wanted for _ in range(repeats)], [repeat for _ in wanted for repeat in range(repeats)]))


class ClaimsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-claims-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_claims_are_right(self):
        for outcome in outcomes(list(programs(() if FULL else QUICK)), self.folder):
            with self.subTest(program=outcome.program.name):
                self.assertEqual([claim.kind for claim in outcome.claims if not claim.right], [], outcome.claims)
                if outcome.program.kind == "sound":
                    self.assertEqual(outcome.missed(), [], outcome.report["verdict"])

    def test_the_same_program_gets_the_same_verdict(self):
        if not FULL:
            self.skipTest("with --full")
        said = {}
        for outcome in outcomes(list(programs(REPEATED)), self.folder, REPEATS, claims=False):
            verdict = (outcome.report["verdict"]["kind"], *((row["status"], row["line"], row["bytes_per_iteration"]) for row in outcome.rows()), *(remedy["peak_without_bytes"] for remedy in outcome.report["remedies"]))
            said.setdefault(outcome.program.name, set()).add(verdict)
        self.assertEqual(set(said), set(REPEATED))
        for name, verdicts in said.items():
            with self.subTest(program=name):
                self.assertEqual(len(verdicts), 1, verdicts)


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "-"


def table(names, folder):
    """The tables of docs/claims.md: numbers by kind of claim, then each claim that is wrong and each truth that was not found."""
    found = outcomes(list(programs(names)), folder)
    print("| kind of claim | programs say it | right | precision | true of | found | recall |\n|---|---:|---:|---:|---:|---:|---:|")
    for kind, meaning in KINDS.items():
        claims = [claim for outcome in found for claim in outcome.claims if claim.kind == kind]
        wanted, missed = (sum((text if text in KINDS else "growing") == kind for texts in each for text in texts) for each in ([outcome.program.truths for outcome in found], [outcome.missed() for outcome in found]))
        right = sum(claim.right for claim in claims)
        print(f"| {kind}: {meaning} | {len(claims)} | {right} | {percent(right, len(claims))} | {wanted} | {wanted - missed} | {percent(wanted - missed, wanted)} |")
    print("\n| program | wrong, or not found |\n|---|---|")
    for outcome in found:
        for claim in outcome.claims:
            if not claim.right:
                print(f"| `{outcome.program.name}` | wrong ({claim.kind}): {claim.says} |")
        for text in outcome.missed():
            print(f"| `{outcome.program.name}` | not found: {text} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", nargs="*", metavar="NAME", help="print the tables of docs/claims.md and test nothing")
    parser.add_argument("--keep", help="leave the traces in this folder, and take those that are there")
    parser.add_argument("--full", action="store_true", help="all programs, and each verdict ten times")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    if arguments.table is not None:
        with tempfile.TemporaryDirectory(prefix="gpumemshim-claims-") as temporary:
            table(arguments.table, arguments.keep or temporary)
    else:
        unittest.main(argv=rest)

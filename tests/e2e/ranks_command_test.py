# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumem ranks` on jobs under torchrun with one change in one rank: its first sentence names the rank and the cause, and nobody in balanced jobs.

    python tests/e2e/ranks_command_test.py --build build/release [--full]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import rank_jobs
import truth

SETUP = None
RARER = ("test_plantings", "test_balanced_jobs", "test_a_pipeline_differs_by_design", "test_an_outlier_in_a_pipeline", "test_the_first_out_of_memory")


def ranks(*arguments, code=0):
    done = subprocess.run([SETUP.gpumem, "ranks", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}\n{done.stdout[:2000]}")
    return json.loads(done.stdout)


def keys_of(value):
    if isinstance(value, list):
        return {key for each in value for key in keys_of(each)}
    return {*value, *(key for name, each in value.items() for key in keys_of(each) if name != "categories")} if isinstance(value, dict) else set()


class EveryDay(unittest.TestCase):
    """One job of four ranks, of which rank 2 keeps 4 MiB more each step from step 1 on."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumem-ranks-command-")
        cls.addClassCleanup(folder.cleanup)
        cls.runs = rank_jobs.record(SETUP, pathlib.Path(folder.name), rank_jobs.FIRST["leaked_buffer"], 4)
        cls.traces = sorted(cls.runs.glob("*.gmtrace"), key=lambda path: re.search(r"\.r(\d+)\.", path.name).group(1))

    def copy(self, name):
        """A folder with all traces, to do harm to."""
        folder = self.runs / name
        folder.mkdir()
        for trace in self.traces:
            shutil.copy(trace, folder)
        return folder

    def test_the_first_sentence_names_rank_and_cause(self):
        answer = ranks(self.runs)
        self.assertRegex(answer["headline"], r"^rank 2 holds 9\d\.\d* MiB .* more than rank \d, the median rank, at step 24: .*train_parallel\.py:133 main .*24 x 4 MiB")
        self.assertEqual((answer["verdict"], answer["expected_ranks"], answer["present_ranks"]), ("uneven", 4, 4))
        self.assertEqual([each["ranks"] for each in answer["deviations"]], [[2]])
        self.assertEqual(answer["missing_ranks"] + answer["other_traces"] + answer["doubts"], [])
        self.assertEqual(ranks(*reversed(self.traces))["headline"], answer["headline"], "the order of the files has no influence")

    def test_numbers_are_those_of_each_trace_alone(self):
        answer, peaks = ranks("--by", "step", self.runs), []
        for trace, rank in zip(self.traces, answer["ranks"]):
            steps = json.loads(truth.run([SETUP.gpumem, "steps", "--json", "--top", "0", str(trace)], SETUP))["steps"]
            peaks.append({each["step"]: each["peak_bytes"] for each in steps})
            (step,) = (each for each in steps if each["step"] == answer["first_step"])
            self.assertEqual(rank["bytes"], step["peak_bytes"])
            self.assertEqual(rank["peak_allocated_bytes"], truth.report(SETUP, trace)["devices"][0]["peak"]["allocated_bytes"])
            self.assertEqual((rank["steps"], rank["local_rank"], rank["device"]), (24, rank["rank"], rank["rank"]))
        self.assertEqual(answer["skew_bytes"], max(each["bytes"] for each in answer["ranks"]) - min(each["bytes"] for each in answer["ranks"]))
        # Early on another rank may hold more for a moment: NCCL's watchdog keeps buffers for about 100 ms.
        self.assertEqual([peaks[row["max_rank"]][number] for number, row in enumerate(answer["steps"], 1)], [max(of[number] for of in peaks) for number in range(1, 25)])
        self.assertEqual({row["max_rank"] for row in answer["steps"][12:]}, {2})

    def test_a_pair_is_what_diff_says(self):
        (deviation,) = ranks(self.runs)["deviations"]
        a, b = (self.traces[deviation[name]] for name in ("compared_to_rank", "rank"))
        command = [SETUP.gpumem, "diff", "--json", "--from", deviation["compared_to_moment"], "--to", deviation["moment"], str(a), str(b)]
        answer = json.loads(truth.run(command, SETUP))
        self.assertEqual((answer["delta_bytes"], answer["cause"]), (deviation["delta_bytes"], deviation["cause"]))

    def test_ranks_without_the_odd_one_are_balanced(self):
        answer = ranks(*(trace for i, trace in enumerate(self.traces) if i != 2), code=4)
        self.assertRegex(answer["headline"], r"^rank 2 of 4 is missing; balanced: 3 ranks, .* MiB at step \d+$")
        self.assertEqual((answer["missing_ranks"], answer["deviations"]), ([2], []))

    def test_a_truncated_trace_is_told(self):
        folder = self.copy("truncated")
        trace = folder / self.traces[1].name
        trace.write_bytes(trace.read_bytes()[:-5000])
        answer = ranks(folder, code=4)
        self.assertRegex(answer["headline"], r"^rank 1 has a damaged trace; .*rank 2 holds")
        self.assertEqual(answer["damaged_ranks"], [1])

    def test_what_is_no_trace_is_told(self):
        folder = self.copy("broken")
        (folder / self.traces[3].name).write_bytes(b"no trace")
        answer = ranks(folder, code=4)
        self.assertRegex(answer["headline"], r"^rank 3 of 4 is missing; 1 trace cannot be read; .*rank 2 holds")
        self.assertEqual([each["why"] for each in answer["other_traces"]], ["unreadable"])

    def test_a_trace_of_another_job_is_told(self):
        folder = self.copy("other")
        command = [SETUP.gpumem, "run", "-o", str(folder / "other.gmtrace"), "--", *SETUP.command("-c"), "import torch; torch.ones(1000).cuda()"]
        environment = {**truth.environment_of(truth.Case("none"), SETUP), "RANK": "1", "WORLD_SIZE": "2"}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=SETUP.timeout_s)
        answer = ranks(folder, code=4)
        self.assertRegex(answer["headline"], r"^1 trace is of another job \(.*world size 2\); rank 2 holds")
        self.assertEqual([(each["why"], each["rank"]) for each in answer["other_traces"]], [("other_job", 1)])

    def test_summaries_answer_as_the_traces_do(self):
        folder = self.copy("summaries")
        expected = ranks(folder)
        self.assertEqual(list(folder.glob("*.summary")), [])
        self.assertEqual(ranks("--write-summaries", folder), expected)
        summaries = sorted(folder.glob("*.summary"))
        self.assertEqual(len(summaries), 4)
        self.assertEqual(ranks(folder), expected)
        together = folder / "job.summary"
        together.write_text("".join(path.read_text() for path in summaries))
        self.assertEqual(ranks(together), expected)
        # A trace that changed is read itself.
        trace = folder / self.traces[1].name
        trace.write_bytes(trace.read_bytes()[:-5000])
        self.assertEqual(ranks(folder, code=4)["damaged_ranks"], [1])
        # Without traces all but the cause is known.
        for trace in folder.glob("*.gmtrace"):
            trace.unlink()
        answer = ranks(together)
        self.assertEqual((answer["ranks"], answer["deviations"][0]["cause"]["kind"]), (expected["ranks"], "unknown"))

    def test_text_and_documented_keys(self):
        text = truth.run([SETUP.gpumem, "ranks", "--by", "step", "--top", "3", str(self.runs)], SETUP)
        for part in ("rank 2 holds", "max/median", "Next: gpumem diff", "most in rank", "1 more (--top 0 shows them)"):
            self.assertIn(part, text)
        documented = (truth.ROOT / "docs" / "json.md").read_text(encoding="utf-8")
        self.assertEqual([key for key in keys_of(ranks("--by", "step", self.runs)) if f"`{key}`" not in documented], [])

    def test_a_folder_without_traces_says_what_to_do(self):
        empty = self.runs / "empty"
        empty.mkdir()
        done = subprocess.run([SETUP.gpumem, "ranks", str(empty)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 3)
        self.assertIn("gpumem run -o runs/ -- torchrun", done.stderr)

    # With --full:

    def in_folder(self, name):
        folder = self.runs / name
        folder.mkdir()
        return folder

    def test_plantings(self):
        for name, planting in {**rank_jobs.FIRST, **rank_jobs.SECOND}.items():
            with self.subTest(planting=name):
                folder = rank_jobs.record(SETUP, self.in_folder(name), planting, 8)
                self.assertRegex(ranks(folder)["headline"], planting.expected.replace("{rank}", str(planting.rank)))

    def test_balanced_jobs(self):
        for name, planting in rank_jobs.BALANCED.items():
            with self.subTest(parallel=name):
                answer = ranks(rank_jobs.record(SETUP, self.in_folder(f"balanced_{name}"), planting, 8))
                self.assertEqual((answer["verdict"], answer["deviations"]), ("balanced", []), answer["headline"])
                self.assertRegex(answer["headline"], r"^balanced: 8 ranks")

    def test_the_first_out_of_memory(self):
        # 48 MiB more each step on a device of 1,200 MiB, of which a context takes a part.
        leak = rank_jobs.before_backward(f"KEPT.append(torch.zeros(12 << 20, device=device)) if {rank_jobs.HERE} else None")
        folder = self.in_folder("out_of_memory")
        with unittest.mock.patch.dict(os.environ, SIMCUDA_MEM_MB="1200"), self.assertRaises(truth.Failure):
            rank_jobs.record(SETUP, folder, rank_jobs.Planting(leak, "", rank=2), 4)
        answer = ranks(folder)
        self.assertRegex(answer["headline"], r"^rank 2 ran out of memory first, at step \d+ \(48 MiB refused, .* the others held 1\d\d.*; rank 2 holds .* more .*main keeps 48 MiB more")
        self.assertEqual([each["rank"] for each in sorted(answer["first_oom"]["others"], key=lambda each: each["rank"])], [0, 1, 3])

    def test_a_pipeline_differs_by_design(self):
        answer = ranks(rank_jobs.record_program(SETUP, self.in_folder("pipeline"), truth.PROGRAMS / "pipelined.py", 4))
        self.assertEqual((answer["verdict"], answer["model_parts"]), ("by_design", 4))
        self.assertRegex(answer["headline"], r"^the ranks hold 4 different parts of the model and differ by design; rank 3 holds .* more .*(head|embedding)")

    def test_an_outlier_in_a_pipeline(self):
        # Nobody else has this part of the model, so what is odd cannot be told from what is by design; the cause is named all the same.
        answer = ranks(rank_jobs.record_program(SETUP, self.in_folder("leaking_pipeline"), truth.PROGRAMS / "pipelined.py", 4, "--leak", "1"))
        (deviation,) = (each for each in answer["deviations"] if each["ranks"] == [1])
        self.assertRegex(deviation["cause"]["text"], r"pipelined\.py:\d+ main")


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim ranks` on jobs under torchrun with one change in one rank: its first sentence names the rank and the cause, and nobody in balanced jobs.

    python tests/e2e/ranks_command_test.py --build build/release [--full]
"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import made_up_ranks
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
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-ranks-command-")
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

    def record_other_job(self, folder):
        command = [SETUP.gpumem, "run", "-o", str(folder / "other.gmtrace"), "--", *SETUP.command("-c"), "import torch; torch.ones(1000).cuda()"]
        environment = {**truth.environment_of(truth.Case("none"), SETUP), "RANK": "1", "WORLD_SIZE": "2"}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=SETUP.timeout_s)

    def export(self, places, folder, code, *flags):
        """Parquet of traces; what standard error says. Skips the test where there is no DuckDB."""
        environment = {**os.environ, "GPUMEMSHIM_INDEX_DIR": str(self.runs / "index")}
        done = subprocess.run([SETUP.gpumem, "export", "parquet", *flags, *map(str, places), "-o", str(folder)], capture_output=True, text=True, timeout=120, env=environment)
        if done.returncode == 3 and "DuckDB" in done.stderr:
            self.skipTest(f"no DuckDB: {done.stderr}")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def rows(self, query):
        """What DuckDB says of files."""
        environment = {**os.environ, "GPUMEMSHIM_INDEX_DIR": str(self.runs / "index")}
        return json.loads(truth.run([SETUP.gpumem, "sql", "--unsafe", "--json", str(self.traces[0]), query], SETUP, environment))["rows"]

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

    def test_answers_are_the_same_however_many_traces_are_read_at_once(self):
        folder = self.copy("jobs")
        (folder / self.traces[0].name).write_bytes(b"no trace")
        one, three = (ranks("--jobs", jobs, folder, code=4) for jobs in ("1", "3"))
        self.assertEqual(one, three)
        done = subprocess.run([SETUP.gpumem, "ranks", "--jobs", "2", "--device", "9", str(self.runs)], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, "no memory of GPU 9" in done.stderr), (2, True))

    def test_a_thousand_ranks_of_which_three_are_not_whole(self):
        folder = self.runs / "thousand"
        folder.mkdir()
        file = folder / "job.summary"
        recorded = [json.loads(trace.with_name(f"{trace.name}.summary").read_text()) for trace in self.traces]  # the recorder's own
        job = made_up_ranks.varied(recorded, 1000, random.Random(7), odd=(777, 2))
        job.ranks[3]["damage"] = "the file ends in the middle of a packet"
        job.ranks[5]["job_id"] = "another"
        del job.ranks[900]
        file.write_text(job.summaries())
        answer = ranks(file, code=4)
        self.assertRegex(
            answer["headline"], r"^ranks 5 and 900 of 1000 are missing; rank 3 has a damaged trace; 1 trace is of another job \(job another\); rank 777 holds .* more than rank \d+, the median rank, at step 24: "
        )
        self.assertEqual((answer["missing_ranks"], answer["damaged_ranks"], [each["rank"] for each in answer["other_traces"]]), ([5, 900], [3], [5]))
        self.assertEqual([each["ranks"] for each in answer["deviations"]], [[777]])

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
        self.record_other_job(folder)
        answer = ranks(folder, code=4)
        self.assertRegex(answer["headline"], r"^1 trace is of another job \(.*world size 2\); rank 2 holds")
        self.assertEqual([(each["why"], each["rank"]) for each in answer["other_traces"]], [("other_job", 1)])

    def test_parquet_has_a_folder_for_each_rank(self):
        self.assertEqual(self.export([self.runs], self.runs / "tables", 0), "")
        self.assertEqual(sorted(path.name for path in (self.runs / "tables" / "blocks").iterdir()), [f"rank={rank}" for rank in range(4)])
        peaks = self.rows(f"SELECT rank, _rank, _host, _role, max(allocated) AS peak FROM read_parquet('{self.runs}/tables/events/*/*.parquet', hive_partitioning = true) GROUP BY ALL ORDER BY rank")
        told = ranks(self.runs)["ranks"]
        self.assertEqual(peaks, [{"rank": each["rank"], "_rank": each["rank"], "_host": each["hostname"], "_role": f"dp {each['rank']}/{len(told)}", "peak": each["peak_allocated_bytes"]} for each in told])
        table = self.rows(f"SELECT rank, state, path, peak_allocated, peak_total, steps, ended, device FROM '{self.runs}/tables/ranks/*.parquet' ORDER BY rank")
        names = {"peak_allocated": "peak_allocated_bytes", "peak_total": "peak_total_bytes", "path": "file"}
        self.assertEqual(table, [{key: "present" if key == "state" else each[names.get(key, key)] for key in table[0]} for each in told])
        # Without partitions the same rows, and without indexes left behind.
        self.export([self.runs], self.runs / "flat", 0, "--partition", "none", "--jobs", "1")
        self.assertEqual(sorted(path.name for path in (self.runs / "flat" / "blocks").iterdir()), [f"trace-0000{trace}.parquet" for trace in range(4)])
        (count,) = self.rows(f"SELECT (SELECT count(*) FROM '{self.runs}/flat/events/*.parquet' WHERE rank = 2) AS flat, (SELECT count(*) FROM '{self.runs}/tables/events/rank=2/*.parquet') AS parted")
        self.assertEqual(count["flat"], count["parted"])
        self.assertEqual([path.name for path in self.runs.iterdir() if path.name.startswith("tables.")] + list(self.runs.rglob(".index")), [])

    def test_parquet_says_who_is_missing_damaged_or_foreign(self):
        folder = self.copy("parquet")
        (folder / self.traces[0].name).unlink()
        truncated = folder / self.traces[1].name
        truncated.write_bytes(truncated.read_bytes()[:-5000])
        (folder / self.traces[3].name).write_bytes(b"no trace")
        self.record_other_job(folder)
        told = self.export([folder], folder / "tables", 4)
        for part in ("ranks 0 and 3 of 4 are missing", "rank 1 has a damaged trace", "1 trace is of another job", "is left out"):
            self.assertIn(part, told)
        table = self.rows(f"SELECT rank, state, reason, trace FROM '{folder}/tables/ranks/*.parquet' ORDER BY rank, state")
        self.assertEqual([(row["rank"], row["state"]) for row in table], [(0, "missing"), (1, "damaged"), (1, "other_job"), (2, "present"), (3, "missing"), (3, "unreadable")])
        self.assertEqual([row["trace"] is None for row in table], [True, False, False, False, True, False])
        self.assertIn("world size 2", table[2]["reason"])
        # The columns are documented.
        documented = (truth.ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
        columns = [row["column_name"] for row in self.rows(f"DESCRIBE SELECT * FROM '{folder}/tables/ranks/*.parquet'")]
        self.assertEqual([name for name in columns if f"| `{name}` |" not in documented], [])

    def test_parquet_has_the_steps_of_ranks_that_kept_a_summary_alone(self):
        folder = self.copy("summary_alone")
        (folder / self.traces[1].name).unlink()
        summary = json.loads((self.runs / f"{self.traces[1].name}.summary").read_text())
        (folder / f"{self.traces[1].name}.summary").write_text(json.dumps({**summary, "summary_only": True}) + "\n")
        self.export([folder], folder / "tables", 0)
        table = self.rows(f"SELECT rank, state, summary_only FROM '{folder}/tables/ranks/*.parquet' ORDER BY rank")
        self.assertEqual([tuple(row.values()) for row in table], [(rank, "present", rank == 1) for rank in range(4)])
        steps = self.rows(f"SELECT step, peak_allocated, peak_total, _host, trace FROM '{folder}/tables/steps/rank=1/*.parquet' ORDER BY step")
        self.assertEqual([[row["step"], row["peak_allocated"], row["peak_total"]] for row in steps], summary["steps"])
        self.assertEqual({(row["_host"], row["trace"]) for row in steps}, {(summary["hostname"], 1)})
        self.assertEqual(sorted(path.name for path in (folder / "tables" / "blocks").iterdir()), ["rank=0", "rank=2", "rank=3"])

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

    def test_the_recorder_wrote_the_same_summaries(self):
        folder = self.copy("own_summaries")
        ranks("--write-summaries", folder)
        for trace in self.traces:
            own, later = (json.loads((where / f"{trace.name}.summary").read_text()) for where in (self.runs, folder))
            of_the_file = ("file", "trace_changed_ns")
            self.assertEqual({key: value for key, value in own.items() if key not in of_the_file}, {key: value for key, value in later.items() if key not in of_the_file})

    def test_text_and_documented_keys(self):
        text = truth.run([SETUP.gpumem, "ranks", "--by", "step", "--top", "3", str(self.runs)], SETUP)
        for part in ("rank 2 holds", "max/median", "Next: gpumemshim diff", "most in rank", "1 more: --top 0"):
            self.assertIn(part, text)
        documented = (truth.ROOT / "docs" / "json.md").read_text(encoding="utf-8")
        self.assertEqual([key for key in keys_of(ranks("--by", "step", self.runs)) if f"`{key}`" not in documented], [])

    def test_a_folder_without_traces_says_what_to_do(self):
        empty = self.runs / "empty"
        empty.mkdir()
        done = subprocess.run([SETUP.gpumem, "ranks", str(empty)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 3)
        self.assertIn("gpumemshim run -o runs/ -- torchrun", done.stderr)

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

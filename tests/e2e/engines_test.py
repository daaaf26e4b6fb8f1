# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What DuckDB, ClickHouse and Spark say of `gpumemshim export parquet` is what `gpumemshim ranks` says, byte by byte as CSV: of a recorded job under torchrun, of 200
ranks made from it, and of jobs in which whatever may happen does.

    python tests/e2e/engines_test.py --build build/release [--full]

Every day: the DuckDB that `gpumemshim sql` opens. With --full: the packages duckdb, chdb and pyspark (scripts/requirements/engines.txt, 900 MB, into the build tree,
removed at the end). What a machine lacks is skipped, with the reason.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import libraries_test
import made_up_ranks
import rank_jobs
import truth

sys.path.insert(0, str(truth.ROOT / "python"))
from gpumemshim import rank_tables  # noqa: E402

SETUP = None
ENGINES = None  # the Python that has the packages; None: every day
COMPARED = ("balance", "peaks", "clusters", "skew")  # answers of gpumemshim ranks itself


def ranks(*arguments):
    """What gpumemshim ranks says, whole or not."""
    done = subprocess.run([SETUP.gpumem, "ranks", "--json", "--by", "step", "--top", "1", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 4):
        raise AssertionError(f"exit {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def step_of(moment):
    return int(moment.split()[1]) if moment.startswith("step ") else -1


def expected(answer):
    """{name: CSV} of the answers of rank_tables.sql, from gpumemshim ranks --json."""
    held = {each["rank"]: each["bytes"] for each in answer["ranks"]}
    names = ("verdict", "measure", "subject", "moment", "first_step", "last_step")
    sizes = ("min_bytes", "median_bytes", "mean_bytes", "max_bytes", "skew_bytes", "max_over_mean", "max_over_median", "median_rank", "model_parts")
    compared = sum(value is not None for value in held.values())
    balance = {**{name: answer[name] for name in names}, "compared_ranks": compared, **{name: answer[name] for name in sizes}}
    peaks = []
    for each in answer["ranks"]:
        row = {name: each[name] for name in ("rank", "hostname", "local_rank", "pid", "device", "bytes")}
        row.update({name: each[name] for name in ("peak_allocated_bytes", "peak_reserved_bytes", "peak_total_bytes", "context_bytes", "communicator_bytes")})
        row.update(steps=each["steps"], last_step=each["last_step"], ended=each["ended"], last_event_unix_ns=each["last_event_realtime_ns"])
        peaks.append({**row, "total_events": each["total_events"], "lost_events": each["lost_events"]})
    clusters = []
    for number, each in enumerate(answer["deviations"], 1):
        for rank in each["ranks"]:
            row = {"deviation": number, "rank": rank, "bytes": held[rank], "by_design": int(each["by_design"]), "delta_bytes": each["delta_bytes"]}
            row.update(compared_rank=each["rank"], compared_bytes=each["bytes"], compared_step=step_of(each["moment"]))
            clusters.append({**row, "compared_to_rank": each["compared_to_rank"], "compared_to_bytes": each["compared_to_bytes"]})
    skew = [{key: step[key] for key in ("first_step", "last_step", "min_bytes", "median_bytes", "max_bytes", "max_rank", "ranks")} for step in answer["steps"]]
    found = {"balance": [balance] if compared else [], "peaks": peaks, "clusters": clusters, "skew": skew}
    return {name: rank_tables.text_of(rows) for name, rows in found.items()}


def by_line(rows, *names):
    """Rows of rank, line, ... with bytes and blocks summed, as the answers lines and leaks have them."""
    sums = {}
    for row in rows:
        found = sums.setdefault(tuple(row[name] for name in names), [0, 0])
        found[0] += row["bytes"]
        found[1] += row["count"]
    order = sorted(sums.items(), key=lambda each: (each[0][0], -each[1][0], *((name is None, name or "") for name in each[0][1:])))
    return [{**dict(zip(names, key)), "bytes": size, "blocks": count} for key, (size, count) in order]


class Engines:
    """The answers of an export by each engine, as CSV."""

    def __init__(self, folder, trace):
        self.folder, self.trace = folder, trace

    def shipped(self, before=()):
        """By the DuckDB that gpumemshim sql opens. before: statements that make the tables first. None where there is no DuckDB."""
        environment = {**os.environ, "GPUMEMSHIM_INDEX_DIR": str(self.trace.parent / "index")}

        def run(statements):
            script = ";\n".join(statements) + ";\n"
            done = subprocess.run([SETUP.gpumem, "sql", "--unsafe", "--json", str(self.trace)], input=script, capture_output=True, text=True, timeout=300, env=environment)
            if done.returncode == 3 and "DuckDB" in done.stderr:
                raise unittest.SkipTest(f"no DuckDB: {done.stderr}")
            if done.returncode:
                raise AssertionError(f"exit {done.returncode}: {done.stderr}")
            return done.stdout

        if before:
            run(before)
        queries = [rank_tables.query(name) for name in rank_tables.answers()]
        printed = run([*rank_tables.setup("duckdb", self.folder), *queries])
        decoder, found, at = json.JSONDecoder(), [], 0
        while at < len(printed.rstrip()):
            answer, at = decoder.raw_decode(printed, at)
            at += len(printed[at:]) - len(printed[at:].lstrip())
            if answer.get("rows") is not None:
                found.append(answer["rows"])
        return dict(zip(rank_tables.answers(), map(rank_tables.text_of, found[-len(queries) :])))

    def package(self, engine):
        """By one of the packages, in a process of its own. A machine without Java has no Spark."""
        environment = {**os.environ, "PYTHONPATH": str(truth.ROOT / "python"), "PYTHONWARNINGS": "ignore"}
        command = [ENGINES, "-m", "gpumemshim.rank_tables", str(self.folder), "--engine", engine]
        if engine == "spark":
            if shutil.which("java") is None:
                raise unittest.SkipTest("no java (Debian: default-jre-headless), which Spark needs")
            submit = pathlib.Path(ENGINES).parent / "spark-submit"
            settings = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.log.level=ERROR", "spark.driver.memory=2g")
            program = truth.ROOT / "python" / "gpumemshim" / "spark.py"
            command = [str(submit), "--master", "local[2]", *(word for each in settings for word in ("--conf", each)), str(program), str(self.folder)]
            environment["PYSPARK_PYTHON"] = ENGINES
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=environment)
        if done.returncode:
            raise AssertionError(f"{engine}: exit {done.returncode}: {done.stderr[-3000:]}")
        parts = re.split(rf"^({'|'.join(rank_tables.answers())})\n", done.stdout, flags=re.MULTILINE)[1:]
        return {name: text.rstrip("\n") + "\n" if text.strip() else "" for name, text in zip(parts[::2], parts[1::2])}


class EveryDay(unittest.TestCase):
    """One job of four ranks, of which rank 2 keeps 4 MiB more each step from step 1 on."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-engines-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.runs = cls.folder / "runs"
        cls.runs.mkdir()
        rank_jobs.record(SETUP, cls.runs, rank_jobs.FIRST["leaked_buffer"], 4)
        cls.traces = sorted(cls.runs.glob("*.gmtrace"), key=lambda path: re.search(r"\.r(\d+)\.", path.name).group(1))
        cls.tables = cls.folder / "tables"
        environment = {**os.environ, "GPUMEMSHIM_INDEX_DIR": str(cls.folder / "index")}
        done = subprocess.run([SETUP.gpumem, "export", "parquet", str(cls.runs), "-o", str(cls.tables)], capture_output=True, text=True, timeout=300, env=environment)
        if done.returncode == 3 and "DuckDB" in done.stderr:
            raise unittest.SkipTest(f"no DuckDB: {done.stderr}")
        assert done.returncode == 0, done.stderr

    def expected_of_the_job(self):
        """Of the recorded job: lines and leaks are those that gpumemshim at and gpumemshim leaks say of each trace."""
        answer = ranks(self.runs)
        lines, leaks = [], []
        for rank, trace in zip(answer["ranks"], self.traces):
            at = json.loads(truth.run([SETUP.gpumem, "at", f"step {answer['first_step']}", "--json", "--top", "0", str(trace)], SETUP))
            self.assertEqual(sum(each["bytes"] for each in at["stacks"] if each["layer"] == "torch"), rank["bytes"])
            lines += [{**each, "rank": rank["rank"], "line": each["site"]} for each in at["stacks"] if each["layer"] == "torch"]
            (device,) = json.loads(truth.run([SETUP.gpumem, "leaks", "--json", "--top", "0", str(trace)], SETUP))["devices"]
            leaks += [{**each, "rank": rank["rank"], "line": each["site"]} for each in device["alive"]["torch"]["stacks"]]
        kept = by_line(leaks, "rank", "line")
        return {**expected(answer), "lines": rank_tables.text_of(by_line(lines, "rank", "line", "category")), "leaks": kept}

    def compare(self, found, wanted):
        for name, text in wanted.items():
            if name == "leaks":  # gpumemshim leaks does not count steps
                rows = [line.split(",") for line in found[name].splitlines()[1:]]
                self.assertEqual([(int(row[0]), row[1] or None, int(row[2]), int(row[3])) for row in rows], [tuple(row.values()) for row in text])
                continue
            self.assertEqual(found[name], text, name)

    def made_up(self, name, job):
        """(Engines, what gpumemshim ranks says) of a job that nobody ran."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "job.summary").write_text(job.summaries())
        return Engines(folder, self.traces[0]), expected(ranks(folder / "job.summary"))

    def test_a_recorded_job(self):
        found, wanted = Engines(self.tables, self.traces[0]).shipped(), self.expected_of_the_job()
        self.assertIn("uneven", wanted["balance"])
        self.assertEqual(len(wanted["clusters"].splitlines()), 2)
        self.compare(found, wanted)
        leak = [line for line in found["leaks"].splitlines() if "train_parallel.py:133" in line]
        self.assertEqual([(line.split(",")[0], line.split(",")[-2:]) for line in leak], [("2", ["24", "24"])])

    def test_whatever_may_happen(self):
        verdicts = set()
        for seed in range(14):
            with self.subTest(seed=seed):
                job = made_up_ranks.random_job(random.Random(seed))
                engines, wanted = self.made_up(f"seed{seed}", job)
                found = engines.shipped(before=job.copy_statements(engines.folder))
                verdicts.add(tuple(wanted["balance"].splitlines()[-1].split(",")[:4]) if wanted["balance"] else ())
                self.compare(found, wanted)
        self.assertLessEqual({"nothing", "balanced", "by_design", "uneven"}, {each[0] for each in verdicts if each}, verdicts)

    def test_200_ranks(self):
        job = self.two_hundred()
        engines, wanted = self.made_up("varied", job)
        found = engines.shipped(before=job.copy_statements(engines.folder))
        self.compare(found, wanted)
        self.assertEqual(wanted["clusters"].splitlines()[1].split(",")[:2], ["1", "155"])

    def two_hundred(self):
        truth.run([SETUP.gpumem, "ranks", "--write-summaries", str(self.runs)], SETUP)
        recorded = [json.loads(path.read_text()) for path in sorted(self.runs.glob("*.summary"))]
        return made_up_ranks.varied(recorded, 200, random.Random(7), odd=(155, 2))

    def test_the_script_is_for_the_engines_own_program(self):
        for engine in ("duckdb", "clickhouse"):
            text = rank_tables.script(engine, self.tables, ["balance"])
            self.assertIn("max_over_median", text)
            self.assertEqual("SET join_use_nulls" in text, engine == "clickhouse")
        documented = (truth.ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
        self.assertEqual([name for name in rank_tables.answers() if f"`{name}`" not in documented], [])


class Full(EveryDay):
    """The same by the packages."""

    ENGINES = ("duckdb", "clickhouse", "spark")

    def each(self, engines, wanted):
        for engine in self.ENGINES:
            with self.subTest(engine=engine):
                self.compare(engines.package(engine), wanted)

    def test_a_recorded_job(self):
        self.each(Engines(self.tables, self.traces[0]), self.expected_of_the_job())

    def test_200_ranks(self):
        job = self.two_hundred()
        engines, wanted = self.made_up("varied", job)
        engines.shipped(before=job.copy_statements(engines.folder))
        self.each(engines, wanted)

    def test_whatever_may_happen(self):
        for seed in range(14, 54):
            job = made_up_ranks.random_job(random.Random(seed))
            engines, wanted = self.made_up(f"seed{seed}", job)
            engines.shipped(before=job.copy_statements(engines.folder))
            for engine in self.ENGINES[: 3 if seed % 20 == 0 else 2]:  # Spark takes a minute
                with self.subTest(seed=seed, engine=engine):
                    self.compare(engines.package(engine), wanted)


def main():
    global SETUP, ENGINES
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    SETUP, arguments, (program, *rest) = truth.setup_of_tests(parser)
    environment = SETUP.build / "engines"
    if arguments.full:
        libraries_test.install(environment, SETUP.python, "engines.txt", built=("pyspark",))
        ENGINES = str(environment / "bin" / "python")
    try:
        chosen = [] if any(not word.startswith("-") for word in rest) else ["Full" if arguments.full else "EveryDay"]
        return 0 if unittest.main(argv=[program, *rest, *chosen], exit=False).result.wasSuccessful() else 1
    finally:
        shutil.rmtree(environment, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

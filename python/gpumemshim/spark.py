# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Traces of many ranks in Spark: the tables of `gpumemshim sql` as DataFrames, and what `gpumemshim ranks` says, computed by Spark.

    from gpumemshim import spark as gpumemshim_spark

    folder = gpumemshim_spark.export("runs/", "tables/")            # once; or: gpumemshim export parquet --partition rank runs/ -o tables/
    job = gpumemshim_spark.Job(session, folder)
    job.balance().show()                                        # skew, balance ratio, in which step
    job.peaks().orderBy("bytes", ascending=False).show(10)      # a row a rank
    job.tables["blocks"].where("rank = 7 and category = 'activation'").groupBy("line").sum("size").show()

From the command line, with the package installed:

    spark-submit --master 'local[2]' "$(python -c 'import gpumemshim.spark as s; print(s.__file__)')" tables/ balance clusters

Sizes are bytes, times nanoseconds, as everywhere. The SQL is that of rank_tables.sql, the same for DuckDB and ClickHouse. Needs pyspark 3.5 or newer and Java 17;
`export` needs `gpumemshim` and DuckDB's library. Errors: gpumemshim.GpumemError with what to do; Spark's own exceptions from queries.
"""

import argparse
import os
import sys

from gpumemshim import _program, rank_tables
from gpumemshim._error import GpumemError


def export(traces, folder):
    """Writes the Parquet of traces by `gpumemshim export parquet` on this machine, and returns `folder`.

    traces: a folder of traces, a file, a pattern, or a list of these. folder: must not exist yet, on a file system that Spark's executors see.
    GpumemError where no trace can be read. Damaged, missing and foreign ranks are no error: they are in the table `ranks`.

        gpumemshim.spark.export(["node0/", "node1/"], "/shared/tables")
    """
    places = [traces] if isinstance(traces, (str, os.PathLike)) else list(traces)
    _program.run("export", "parquet", "--partition", "rank", *places, "-o", folder)
    return folder


def tables(session, folder):
    """{name: DataFrame} of all tables of an export: events, blocks, segments, stacks, frames, steps, modules, counters, samples, losses, processes and ranks.

    Columns are those of `gpumemshim sql` (docs/sql.md; of ranks: docs/engines.md), with `rank` as the partition: `where("rank = 3")` reads rank 3 alone. Unsigned
    64-bit numbers (addresses, handles) are decimal(20,0). Nothing is read before an action asks for it, except the schemas.

    session: a SparkSession. folder: a path or URL that Spark reads. AnalysisException where a table is not there.
    """
    found = Tables(session, folder)
    return {name: found[name] for name in (*rank_tables.TABLES, "ranks")}


class Tables(dict):
    """The same, each read when it is first asked for: an export may lack tables that nobody needs."""

    def __init__(self, session, folder):
        super().__init__()
        self.session, self.folder = session, folder

    def __missing__(self, name):
        self[name] = self.session.read.parquet(f"{self.folder}/{name}")
        return self[name]


class Job:
    """The ranks of one job: `tables`, and the answers of `gpumemshim ranks` as DataFrames. Not thread-safe: it makes temporary views of the session.

        job = gpumemshim.spark.Job(session, "tables/")
        job.clusters().toPandas()      # which ranks are unlike the others, and by how much
    """

    def __init__(self, session, folder):
        """Reads schemas, and computes which step is compared and who is unlike the others: a few rows a rank and step, kept by the session until it ends."""
        self.session = session
        self.tables = Tables(session, folder)
        for name in rank_tables.USED:
            self.tables[name].createOrReplaceTempView(name)
        for each in rank_tables.statements():
            if each.kind == "part":
                # Each part is used by several later ones; without a checkpoint the plan would grow with each.
                session.sql(each.sql).localCheckpoint().createOrReplaceTempView(each.name)

    def balance(self):
        """One row: verdict (balanced, by_design, uneven, nothing), measure, subject, moment, first_step, last_step, compared_ranks, min_bytes, median_bytes,
        mean_bytes, max_bytes, skew_bytes, max_over_mean, max_over_median, median_rank, model_parts."""
        return self.answer("balance")

    def peaks(self):
        """A row a rank: rank, hostname, local_rank, pid, device, bytes (in the compared step; null: it has none), peak_allocated_bytes, peak_reserved_bytes,
        peak_total_bytes, context_bytes, communicator_bytes, steps, last_step, ended, last_event_unix_ns, total_events, lost_events."""
        return self.answer("peaks")

    def clusters(self):
        """A row a rank that is unlike the others: deviation (number of its group, furthest first), rank, bytes, by_design, delta_bytes, compared_rank,
        compared_bytes, compared_step (-1: the peak), compared_to_rank, compared_to_bytes. No rows: all are alike."""
        return self.answer("clusters")

    def skew(self):
        """A row a step: first_step, last_step, min_bytes, median_bytes, max_bytes, max_rank, ranks."""
        return self.answer("skew")

    def lines(self):
        """A row a rank, line and category: rank, line, category, bytes, blocks alive at the highest moment of the compared step, largest first."""
        return self.answer("lines")

    def leaks(self):
        """A row a rank and line: rank, line, bytes, blocks that the program's own code never freed, and in how many steps they were allocated."""
        return self.answer("leaks")

    def incomplete(self):
        """The rows of `ranks` that are not whole: missing, damaged, unreadable ranks, traces of other jobs, ranks that lost events."""
        return self.tables["ranks"].where("state <> 'present' or lost_events > 0").orderBy("rank", "trace")

    def answer(self, name):
        """An answer of rank_tables.sql by its name."""
        return self.session.sql(rank_tables.query(name))


def text_of(frame):
    """A DataFrame as CSV, the same bytes for the same values as rank_tables.text_of gives. Collects it: for answers, not for tables."""
    return rank_tables.text_of([row.asDict() for row in frame.collect()])


def main(arguments=None):
    """Prints answers as CSV. TRACES are exported first, into a folder beside them; FOLDER of an export is read as it is."""
    parser = argparse.ArgumentParser(description="What gpumemshim ranks says, by Spark, from gpumemshim export parquet's tables.")
    parser.add_argument("folder", help="of gpumemshim export parquet; made from --traces if given")
    parser.add_argument("answers", nargs="*", metavar="ANSWER", help=f"{', '.join(rank_tables.answers())} (all)")
    parser.add_argument("--traces", nargs="+", help="write the folder from these first")
    asked = parser.parse_intermixed_args(arguments)
    unknown = [name for name in asked.answers if name not in rank_tables.answers()]
    if unknown:
        parser.error(f"{unknown[0]} is not an answer; these are: {', '.join(rank_tables.answers())}")
    from pyspark.sql import SparkSession

    try:
        if asked.traces:
            export(asked.traces, asked.folder)
        session = SparkSession.builder.appName("gpumemshim ranks").getOrCreate()
        job = Job(session, asked.folder)
        for name in asked.answers or rank_tables.answers():
            print(f"{name}\n{text_of(job.answer(name))}", flush=True)
        session.stop()
    except GpumemError as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())

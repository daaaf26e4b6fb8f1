# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What `gpumemshim ranks` says, from the Parquet of `gpumemshim export parquet`, by an engine that is there already: DuckDB or ClickHouse; gpumemshim.spark for Spark.

    gpumemshim export parquet --partition rank runs/ -o tables/
    python -m gpumemshim.rank_tables tables/                            # all answers, as CSV
    python -m gpumemshim.rank_tables tables/ balance clusters --engine clickhouse
    python -m gpumemshim.rank_tables tables/ --engine duckdb --script | duckdb      # the SQL, for the engine's own program

The SQL is in rank_tables.sql, once for all engines. docs/engines.md has the columns of the answers.
"""

import argparse
import csv
import io
import os
import pathlib
import re
import sys
import typing

from gpumemshim._error import GpumemError

FILE = pathlib.Path(__file__).with_suffix(".sql")
TABLES = ("events", "blocks", "segments", "stacks", "frames", "steps", "modules", "counters", "samples", "losses", "processes")
USED = ("ranks", "steps", "blocks", "processes")  # by the queries
# ClickHouse's defaults that are not those of SQL.
CLICKHOUSE_SETTINGS = {"join_use_nulls": 1, "cast_keep_nullable": 1, "use_hive_partitioning": 1}


class Statement(typing.NamedTuple):
    """A SELECT of rank_tables.sql. kind: "part" (to be made a table of this name) or "answer"."""

    kind: str
    name: str
    about: str
    sql: str


def statements():
    """The Statements of rank_tables.sql, in order."""
    found = re.findall(r"^-- (part|answer) (\w+): (.*)\n([^;]*);$", FILE.read_text(encoding="utf-8"), re.MULTILINE)
    return [Statement(*each) for each in found]


def answers():
    """Names of the answers: balance, peaks, clusters, skew, lines, leaks."""
    return [each.name for each in statements() if each.kind == "answer"]


def pattern(folder, table):
    """The files of a table of an export, by rank or not; GpumemError where there are none."""
    folder = pathlib.Path(folder)
    for depth in ("*", "*/*") if table != "ranks" else ("*",):
        if any(folder.glob(f"{table}/{depth}.parquet")):
            return f"{folder}/{table}/{depth}.parquet"
    raise GpumemError(f"{folder} has no table {table}. Make it: gpumemshim export parquet --partition rank TRACES -o {folder}")


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def setup(engine, folder, names=USED):
    """Statements that make the tables of an export views of the engine ("duckdb", "clickhouse"), and each part a table."""
    if engine == "duckdb":
        made = [f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet({quoted(pattern(folder, name))})" for name in names]
        return made + [f"CREATE OR REPLACE TEMP TABLE {each.name} AS {each.sql}" for each in statements() if each.kind == "part"]
    made = [f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM file({quoted(pattern(folder, name))}, Parquet)" for name in names]
    return made + [f"CREATE OR REPLACE TABLE {each.name} ENGINE = Memory AS {each.sql}" for each in statements() if each.kind == "part"]


def script(engine, folder, chosen=None):
    """The text of all this for the engine's own program: settings, views, tables, and the answers (`chosen`: only these).

    folder: of `gpumemshim export parquet`, as that program sees it. engine: "duckdb" or "clickhouse".
    """
    settings = [f"SET {name} = {value}" for name, value in CLICKHOUSE_SETTINGS.items()] if engine == "clickhouse" else []
    queries = [each.sql for each in statements() if each.kind == "answer" and (not chosen or each.name in chosen)]
    return "".join(f"{each};\n" for each in [*settings, *setup(engine, folder), *queries])


class DuckDb:
    """The answers by DuckDB (package `duckdb`), in this process. Memory: 2 GB at most, unless `memory` says otherwise; more goes to a temporary folder.

        gpumemshim.rank_tables.DuckDb("tables/").rows("balance")    # [{"verdict": "uneven", "skew_bytes": 59222528, ...}]
    """

    def __init__(self, folder, memory="2GB"):
        """ImportError without the package; GpumemError where `folder` is not an export."""
        import duckdb

        self.connection = duckdb.connect(config={"memory_limit": memory})
        for sql in setup("duckdb", folder):
            self.connection.execute(sql)

    def rows(self, answer):
        """A list of dicts; sizes in bytes."""
        found = self.connection.execute(query(answer))
        names = [column[0] for column in found.description]
        return [dict(zip(names, row)) for row in found.fetchall()]


class ClickHouse:
    """The same by ClickHouse inside this process (package `chdb`). Close it, or use it in `with`: chdb has one session a process."""

    def __init__(self, folder):
        """ImportError without the package; GpumemError where `folder` is not an export."""
        from chdb import session

        self.session = session.Session()
        self.session.query("CREATE DATABASE IF NOT EXISTS gpumemshim")
        self.session.query("USE gpumemshim")
        for name, value in CLICKHOUSE_SETTINGS.items():
            self.session.query(f"SET {name} = {value}")
        for sql in setup("clickhouse", pathlib.Path(folder).resolve()):
            self.session.query(sql)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.session.close()

    def rows(self, answer):
        """A list of dicts; sizes in bytes."""
        import json

        settings = "output_format_json_quote_64bit_integers = 0, output_format_json_quote_64bit_floats = 0"
        text = self.session.query(f"{query(answer)} SETTINGS {settings}", "JSONEachRow").bytes().decode()
        return [json.loads(line) for line in text.splitlines()]


def query(answer):
    """The SELECT of an answer; KeyError where there is none of this name."""
    return {each.name: each.sql for each in statements() if each.kind == "answer"}[answer]


def text_of(rows):
    """Rows as CSV, the same bytes for the same values whatever engine they come from: NULL is empty, doubles are as Python prints them, whole
    ones without a point."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
    for row in rows:
        writer.writerow([cell(value) for value in row.values()])
    return out.getvalue()


def cell(value):
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    return "" if value is None else value


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m gpumemshim.rank_tables", description="What gpumemshim ranks says, by DuckDB or ClickHouse, from gpumemshim export parquet's tables.")
    parser.add_argument("folder", help="of gpumemshim export parquet")
    parser.add_argument("answers", nargs="*", metavar="ANSWER", help=f"{', '.join(answers())} (all)")
    parser.add_argument("--engine", choices=("duckdb", "clickhouse"), default="duckdb")
    parser.add_argument("--script", action="store_true", help="print the SQL for the engine's own program")
    asked = parser.parse_intermixed_args(arguments)
    unknown = [name for name in asked.answers if name not in answers()]
    if unknown:
        parser.error(f"{unknown[0]} is not an answer; these are: {', '.join(answers())}")
    try:
        if asked.script:
            print(script(asked.engine, asked.folder, asked.answers), end="")
            return 0
        engine = (DuckDb if asked.engine == "duckdb" else ClickHouse)(asked.folder)
        for name in asked.answers or answers():
            print(f"{name}\n{text_of(engine.rows(name))}")
    except ImportError as error:
        sys.exit(f"{error}. Install the engine: pip install {'duckdb' if asked.engine == 'duckdb' else 'chdb'}; or use --script{os.linesep}")
    except GpumemError as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())

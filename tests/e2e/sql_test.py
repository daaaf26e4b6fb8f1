# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim sql` as its users meet it: exit codes, what is refused, a damaged trace, and the shell on a terminal. `gpumemshim export parquet` is read back.

    python tests/e2e/sql_test.py --build build/release
"""

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import diff_pairs
import truth

SETUP = None


class Terminal:
    """gpumemshim on a terminal of its own."""

    def __init__(self, arguments, environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(SETUP.gpumem, ["gpumemshim", *arguments], environment)
        self.text = ""

    def read_until(self, words):
        """Everything so far, once `words` were printed after what was returned before."""
        deadline = time.monotonic() + 120
        while words not in self.text and time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 1)[0]:
                try:
                    self.text += os.read(self.terminal, 65536).decode()
                except OSError:  # it has ended
                    break
        found, self.text = self.text, ""
        if words not in found:
            raise AssertionError(f"{words!r} did not come: {found!r}")
        return found

    def type(self, line):
        os.write(self.terminal, f"{line}\n".encode())

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


class SqlTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-sql-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.trace = diff_pairs.record(SETUP, cls.folder, diff_pairs.EVERY_DAY["batch"], False, "--batch", "2", "--length", "128", "--steps", "2", RANK="3", WORLD_SIZE="8")
        cls.environment = {**os.environ, "XDG_CACHE_HOME": str(cls.folder / "cache"), "GPUMEMSHIM_INDEX_DIR": str(cls.folder / "index")}
        tried = subprocess.run([SETUP.gpumem, "sql", cls.trace, "SELECT 1"], capture_output=True, text=True, timeout=120, env=cls.environment)
        if tried.returncode == 3 and "DuckDB" in tried.stderr:
            raise unittest.SkipTest(f"no DuckDB: {tried.stderr}")

    def gpumem(self, *arguments, code=0):
        done = subprocess.run([SETUP.gpumem, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=self.environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code in (0, 4) else done.stderr

    def one(self, query, *more, code=0):
        """The one value of a query."""
        (row,) = json.loads(self.gpumem("sql", *(more or (self.trace,)), "--json", query, code=code))["rows"]
        (value,) = row.values()
        return value

    def test_what_does_not_fit_into_memory_goes_to_a_folder_of_its_own(self):
        here, elsewhere, index = (self.folder / name for name in ("here", "elsewhere", "index"))
        here.mkdir()
        elsewhere.mkdir()
        (here / ".tmp").symlink_to(elsewhere)  # where DuckDB itself would write
        query = "SELECT max(a) FROM (SELECT range AS a, md5(range::VARCHAR) AS m FROM range(200000000) ORDER BY m)"
        for number, left in ((signal.SIGTERM, 0), (signal.SIGKILL, 1)):
            command = [SETUP.gpumem, "sql", "--memory", "60MB", self.trace, query]
            with subprocess.Popen(command, cwd=here, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as asking:
                while not list(index.glob("gpumemshim-spill-*/*")) and asking.poll() is None:
                    time.sleep(0.05)
                asking.send_signal(number)
                said = asking.communicate(timeout=120)[0]
            self.assertEqual(asking.returncode, -number, said)
            folders = list(index.glob("gpumemshim-spill-*"))
            self.assertEqual([stat.S_IMODE(path.stat().st_mode) for path in folders], [0o700] * left)
        self.assertEqual(self.one("SELECT count(*) FROM steps") > 0, True)
        self.assertEqual(list(index.glob("gpumemshim-spill-*")), [], "what the killed one left is gone")
        self.assertEqual((os.listdir(here), os.listdir(elsewhere)), ([".tmp"], []))

    def test_a_spill_of_a_running_query_stays(self):
        index = self.folder / "index"
        held = index / "gpumemshim-spill-held"
        held.mkdir(0o700)
        holder = os.open(held, os.O_RDONLY)
        fcntl.flock(holder, fcntl.LOCK_EX)
        self.gpumem("sql", self.trace, "SELECT 1")
        self.assertTrue(held.exists())
        os.close(holder)
        self.gpumem("sql", self.trace, "SELECT 1")
        self.assertFalse(held.exists())

    def test_texts_that_a_spreadsheet_would_run(self):
        said = self.gpumem("sql", self.trace, "--format", "csv", "SELECT '=1+1' AS a, -5 AS b, '-5' AS c, '@x' AS d")
        self.assertEqual(said, "a,b,c,d\n'=1+1,-5,-5,'@x\n")

    def test_numbers_are_the_reports(self):
        device = truth.report(SETUP, self.trace)["devices"][0]
        self.assertEqual(self.one("SELECT max(allocated) FROM events"), device["peak"]["allocated_bytes"])
        self.assertEqual(self.one("SELECT sum(size) FROM live_at('peak') WHERE layer = 'torch'"), device["peak"]["allocated_bytes"])

    def test_exit_codes(self):
        for query in ("SELEC 1 FROM blocks", "SELECT * FROM nothing", "SELECT"):
            self.gpumem("sql", self.trace, query, code=2)
        self.gpumem("sql", self.folder / "absent.gmtrace", "SELECT 1", code=3)
        damaged = self.folder / "damaged.trace"
        damaged.write_bytes(self.trace.read_bytes()[:-5000])
        events = "SELECT count(*) FROM events"
        self.assertTrue(0 < self.one(events, damaged, code=4) < self.one(events))
        self.gpumem("sql", self.trace, "--format", "parquet", "SELECT 1", code=2)

    def test_files_settings_and_other_databases_are_refused(self):
        secret = self.folder / "secret.csv"
        secret.write_text("a,b\n1,2\n")
        target = self.folder / "stolen.csv"
        for query in (
            f"SELECT * FROM read_csv('{secret}')",
            f"SELECT * FROM '{secret}'",
            f"SELECT content FROM read_text('{secret}')",
            f"COPY (SELECT 1) TO '{target}'",
            f"ATTACH '{target}' AS other",
            "PRAGMA database_list",
            "SET memory_limit = '1TB'",
            "INSTALL httpfs",
            "SELECT * FROM read_csv('https://127.0.0.1/a.csv')",
        ):
            self.gpumem("sql", self.trace, query, code=2)
        self.assertFalse(target.exists())
        self.assertEqual(self.one(f"SELECT b FROM read_csv('{secret}')", self.trace, "--unsafe"), 2)

    def test_the_shell_on_a_terminal(self):
        terminal = Terminal(["sql", str(self.trace)], {**self.environment, "TERM": "xterm"})
        terminal.read_until("sql> ")
        terminal.type(".tables")
        self.assertIn("blocks", terminal.read_until("human(bytes)"))
        terminal.type(".schema steps")
        terminal.read_until("end_allocated beyond begin_allocated")
        terminal.type("SELECT 1000 + count(*) AS answer")
        terminal.read_until("...> ")
        terminal.type("FROM processes;")
        terminal.read_until("1001")
        terminal.type("SELECT * FROM nothing;")
        terminal.read_until("does not exist")
        terminal.type("SELECT count(*) FROM range(1000000000000);")
        time.sleep(0.5)
        os.write(terminal.terminal, b"\x03")
        terminal.read_until("interrupted")
        terminal.type(".quit")
        self.assertEqual(terminal.end(), 0)
        self.assertIn("FROM processes", "".join(path.read_text() for path in self.folder.rglob("sql_history")))

    def test_parquet_has_all_rows_in_partitions_of_ranks(self):
        tables = self.folder / "tables"
        self.gpumem("export", "parquet", self.trace, "-o", tables)
        self.assertEqual([path.name for path in (tables / "blocks").iterdir()], ["rank=3"])
        for table in ("events", "blocks", "segments", "stacks", "frames", "steps", "modules", "processes", "losses"):
            read = f"SELECT count(*) FROM read_parquet('{tables}/{table}/*/*.parquet', hive_partitioning = true) WHERE rank = 3"
            self.assertEqual(self.one(read, self.trace, "--unsafe"), self.one(f"SELECT count(*) FROM {table}"), table)
        both = f"SELECT max(allocated) FROM read_parquet('{tables}/events/*/*.parquet')"
        self.assertEqual(self.one(both, self.trace, "--unsafe"), self.one("SELECT max(allocated) FROM events"))
        self.assertIn("exists", self.gpumem("export", "parquet", self.trace, "-o", tables, code=2))
        self.gpumem("export", "parquet", self.trace, "-o", self.folder / "other", "--device", "0", code=2)
        self.gpumem("export", "parquet", self.folder / "absent.gmtrace", "-o", self.folder / "other", code=3)
        self.assertEqual([path for path in self.folder.iterdir() if path.name.startswith(("other", "tables.tmp"))], [])


if __name__ == "__main__":
    truth.run_tests(globals())

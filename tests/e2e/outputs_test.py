# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a command writes to is a plain file, or it is written into or refused, and never replaced: every flag of every command that names an output, as the help lists them, on a
device, a pipe, a socket, a disk, a folder, links to them and descriptors. Devices are made by mknod in a folder of the test's own; where that is not allowed, they are left out.

    python tests/e2e/outputs_test.py --build build/release
"""

import contextlib
import os
import pathlib
import re
import resource
import socket
import stat
import subprocess
import tempfile
import threading
import unittest

import diff_pairs
import truth

SETUP = None

FORMATS = ("pytorch", "chrome", "perfetto", "hta", "csv", "jsonl", "rmm", "pprof", "speedscope", "collapsed", "openmetrics", "gpumemoryprofiler-json", "gpumemoryprofiler-log",
           "gpumemoryprofiler-timeline", "memorydebugger-snapshots", "memorydebugger-comparison", "memorydebugger-report", "memorydebugger-log", "tinytorch-status", "tinytorch-log", "packets", "events")
TEXT = ("table", "csv", "json")
OTHER_FORMATS = set(FORMATS) - {"pytorch", "chrome", "csv", "pprof", "memorydebugger-log"}
PLAIN_FLAGS = re.compile(r"^  (--?[\w-]+(?:, --?[\w-]+)*) ([A-Z]*(?:FILE|DIR|PATH|FOLDER|OUT|PLACE)[A-Z]*(?:\.\w+)?) ", re.M)
# Flags that name what is read.
READS = {"--symbols", "--sources", "--sysroot", "--rules", "--file", "--limits", "--baseline", "--check", "--suppressions"}

KILLED = """
import os, signal, time, torch
kept = [torch.empty(1 << 20, device="cuda") for _ in range(30)]
while not os.path.exists(os.environ["GPUMEMSHIM_OUTPUT"]):
    time.sleep(0.01)
kept += [torch.empty(1 << 20, device="cuda") for _ in range(300)]
os.kill(os.getpid(), signal.SIGKILL)
"""
RUNNING = """
import os, sys, torch
kept = [torch.empty(1 << 20, device="cuda") for _ in range(30)]
print(os.getpid(), flush=True)
sys.stdin.read()
"""
# Seconds each, so they are not tried on every kind of place.
SLOW = ("bisect", "bundle", "plan", "replay", "serve", "sweep")
NULL, DISK = os.makedev(1, 3), os.makedev(7, 250)
PLANNED = "import torch\nkept = torch.empty(1 << 20, device='cuda')\n"


def listing(folder):
    """Names, kinds and what links lead to; what a place of output must still be."""
    found = {}
    for entry in os.scandir(folder):
        status = entry.stat(follow_symlinks=False)
        found[entry.name] = (stat.S_IFMT(status.st_mode), status.st_rdev, os.readlink(entry.path) if entry.is_symlink() else "", status.st_ino)
    return found


@contextlib.contextmanager
def reader_of(path):
    """Reads a pipe while another process may write into it. What is yielded is a list that has its bytes in the end."""
    pieces = []
    ours = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)  # so that it does not end before it begins
    os.set_blocking(ours, True)

    def read():
        while piece := os.read(ours, 1 << 16):
            pieces.append(piece)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield pieces
    finally:
        os.close(writer)
        thread.join()
        os.close(ours)


class Outputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-outputs-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.environment = {**truth.environment_of(truth.Case("none"), SETUP), "XDG_CACHE_HOME": str(cls.folder / "cache"), "TMPDIR": str(cls.folder / "tmp"), "GPUMEMSHIM_INDEX_DIR": str(cls.folder / "index")}
        (cls.folder / "tmp").mkdir()
        cls.trace, cls.killed, cls.pickle = (cls.folder / name for name in ("run.gmtrace", "killed.gmtrace", "run.pickle"))
        cls.record(truth.PROGRAMS / "gpt.py", cls.trace)
        cls.record(cls.program("killed", KILLED), cls.killed)
        cls.gpumem("export", "pytorch", cls.trace, "-o", cls.pickle)
        cls.has_duckdb = cls.gpumem("sql", cls.trace, "SELECT 1", check=False).returncode == 0
        command = SETUP.recording(cls.folder / "running.gmtrace", *SETUP.command(cls.program("running", RUNNING)))
        cls.running = subprocess.Popen(command, env=cls.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(lambda: cls.running.communicate("", timeout=60))
        cls.pid = int(cls.running.stdout.readline())

    @classmethod
    def program(cls, name, text):
        path = cls.folder / f"{name}.py"
        path.write_text(text)
        return path

    @classmethod
    def record(cls, program, trace):
        done = subprocess.run(SETUP.recording(trace, *SETUP.command(program)), env=cls.environment, capture_output=True, timeout=240, check=False)
        if not trace.exists():
            raise AssertionError(f"{program} left no trace: {done.stderr}")

    @classmethod
    def gpumem(cls, *words, check=True, folder=None, **more):
        more = {"capture_output": True, "stdin": subprocess.DEVNULL, **more}
        return subprocess.run([SETUP.gpumem, *map(str, words)], cwd=folder or cls.folder, env=cls.environment, timeout=240, check=check, **more)

    def invocations(self, command, flag):
        """Each way to write to FILE by this flag: (words of gpumemshim, the ending that FILE needs)."""
        trace, pickle = self.trace, self.pickle
        plan = ("--", SETUP.python, self.program("planned", PLANNED))
        ways = {
            ("export", "--output"): [(("export", name, trace, "-o", "FILE"), "") for name in FORMATS] + [(("export", "parquet", trace, "-o", "FILE"), "")] * self.has_duckdb
            + [(("export", "trace", self.killed, "-o", "FILE"), ""), (("export", "trace", "--names", trace, "-o", "FILE"), "")],
            ("import", "--output"): [(("import", pickle, *more, "-o", "FILE"), "") for more in ((), ("--force",))],
            ("flame", "--output"): [(("flame", trace, "-o", "FILE"), "")],
            ("html", "--output"): [(("html", trace, "-o", "FILE"), "")],
            ("plot", "--output"): [(("plot", "peak", trace, "-o", "FILE"), ending) for ending in (".png", ".svg", ".pdf")],
            ("bundle", "--output"): [(("bundle", trace, "-o", "FILE"), ".zip")],
            ("sql", "--output"): [(("sql", trace, "--format", name, "-o", "FILE", "SELECT * FROM steps"), "") for name in (*TEXT, "parquet")] * self.has_duckdb,
            ("sql", "--index-dir"): [(("sql", trace, "--index-dir", "FILE", "SELECT 1"), "")] * self.has_duckdb,
            ("ctl", "--output"): [(("ctl", self.pid, "dump", *more, "-o", "FILE"), "") for more in ((), ("--force",))],
            ("run", "--output"): [(("run", *more, "-o", "FILE", "--", "true"), "") for more in ((), ("--force",))],
            ("plan", "--output"): [(("plan", "--no-what-if", "-o", "FILE", *plan), "")],
            ("sweep", "--results-dir"): [(("sweep", "--no-files", "--results-dir", "FILE", "--axis", "env:X=1", *plan), "")],
            ("bisect", "--results-dir"): [(("bisect", "--results-dir", "FILE", "--files", plan[2], plan[2], "--", SETUP.python, "{}"), "")],
            ("bisect", "--wheelhouse"): [],  # it is read
            ("replay", "--keep"): [(("replay", trace, "--keep", "FILE"), "")],
            ("ranks", "--to"): [(("ranks", "--summarize", trace, "--to", "FILE"), "")],
            ("serve", "--token-file"): [(("serve", "--port", "0", "--token-file", "FILE", trace), "")],
            ("attach", "--output"): [],  # the recorder's own: PlainFiles in tests/hosts/processes_test.py
        }
        return ways[command, flag]

    @staticmethod
    def flags():
        """(command, flag) of every flag that names a place, as the help lists them."""
        text = subprocess.run([SETUP.gpumem, "--help"], capture_output=True, text=True, check=True).stdout
        for command in re.findall(r"^(?:[A-Z][a-z]+)? +([a-z]+) {2,}\S", text, re.M):
            flags = subprocess.run([SETUP.gpumem, command, "--help"], capture_output=True, text=True, check=True).stdout.partition("\nFlags:\n")[2]
            for names, _ in PLAIN_FLAGS.findall(flags):
                flag = next(name for name in names.split(", ") if name.startswith("--"))
                if flag not in READS:
                    yield command, flag

    def ways(self, all_of_them=False):
        """Every way that is to be tried: all, or quick ones and of the formats a few. A flag that invocations() does not know is an error."""
        found = list(self.flags())
        self.assertGreaterEqual(len(found), 16)
        ways = [way for command, flag in found if all_of_them or command not in SLOW for way in self.invocations(command, flag)]
        return [way for way in ways if all_of_them or not OTHER_FORMATS.intersection(map(str, way[0]))]

    def place(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def keeps(self, make, beside=False, **more):
        """No way to write replaces or removes what `make` puts at a path, nor hangs. `beside`: other files may come there."""
        for words, ending in self.ways(**more):
            with self.subTest(words=" ".join(map(str, words))):
                folder = self.place()
                path = folder / f"out{ending}"
                make(path)
                before = listing(folder)
                with reader_of(path) if path.is_fifo() else contextlib.nullcontext([]) as pieces:
                    done = self.gpumem(*(path if word == "FILE" else word for word in words), folder=folder, check=False)
                after = listing(folder)
                self.assertEqual({name: after.get(name) for name in before} if beside else after, before, done.stderr)
                self.assertNotIn(done.returncode, (126, 127))
                if done.returncode in (2, 3):
                    self.assertRegex(done.stderr.decode(errors="replace"), f"gpumemshim: .*{path.name}")
                elif path.is_fifo() and words[0] != "ranks":  # its summary gets a number
                    self.assertNotEqual(b"".join(pieces), b"", done.stderr)

    def device(self, path, kind=stat.S_IFCHR, number=NULL):
        try:
            os.mknod(path, kind | 0o666, number)
            if kind == stat.S_IFCHR:
                path.write_text("")
        except OSError as error:
            self.skipTest(f"no device of our own can be made here: {error}")

    def test_a_device(self):
        self.keeps(self.device, all_of_them=True)

    def test_a_link_to_a_device(self):
        def make(path):
            self.device(path.with_name("device"))
            path.symlink_to("device")

        self.keeps(make)

    def test_a_disk(self):
        self.keeps(lambda path: self.device(path, stat.S_IFBLK, DISK), beside=True)

    def test_a_pipe(self):
        self.keeps(os.mkfifo, beside=True)

    def test_a_socket(self):
        def make(path):
            folder = os.open(path.parent, os.O_PATH)
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(f"/proc/self/fd/{folder}/{path.name}")  # the whole path may be too long
            os.close(folder)

        self.keeps(make, beside=True)

    def test_descriptors(self):
        """/dev/stdout and /dev/fd/N are written into, whatever they are."""
        before = {name: what for name, what in listing("/dev").items() if name not in ("ptmx", "pts")}
        for words, ending in self.ways():
            if ending:
                continue  # such a name says no kind of file
            with self.subTest(words=" ".join(map(str, words))), open(self.place() / "kept", "w+b") as kept:
                kept.write(b"before")
                kept.flush()
                inode = os.fstat(kept.fileno()).st_ino
                for name in ("/dev/stdout", f"/dev/fd/{kept.fileno()}"):
                    done = self.gpumem(*(name if word == "FILE" else word for word in words), folder=self.place(), check=False, capture_output=False, stdout=kept, stderr=subprocess.PIPE,
                                       pass_fds=[kept.fileno()])
                    self.assertEqual(os.stat(kept.name).st_ino, inode, done.stderr)
                    kept.seek(0)
                    self.assertEqual(kept.read(6), b"before", done.stderr)
                    kept.seek(0, os.SEEK_END)
        self.assertEqual({name: what for name, what in listing("/dev").items() if name not in ("ptmx", "pts")}, before)

    def test_a_link_to_a_file(self):
        """The link stays; what it leads to is whole, as it was or new, and keeps its mode."""
        for words, ending in self.ways():
            with self.subTest(words=" ".join(map(str, words))):
                folder = self.place()
                path, to = folder / f"out{ending}", folder / f"to{ending}"
                to.write_text("old")
                to.chmod(0o640)
                path.symlink_to(to.name)
                done = self.gpumem(*(path if word == "FILE" else word for word in words), folder=folder, check=False)
                self.assertEqual(os.readlink(path), to.name)
                if to.exists():  # run --force frees the name for a program, which here records nothing
                    self.assertEqual(stat.S_IMODE(to.stat().st_mode), 0o640)
                    is_kept = done.returncode in (2, 3) or words[0] == "ranks"  # the file is not a summary, so that of the run gets a number
                    self.assertEqual(is_kept, to.read_bytes() == b"old", done.stderr)
                self.assertFalse([name for name in os.listdir(folder) if ".tmp." in name])

    def test_no_room(self):
        """What cannot be written whole is not there: what was at the name is as it was, nothing lies beside it, and the message says where and why."""

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

        for words, ending in self.ways():
            if words[0] == "run" or "--index-dir" in words:
                continue  # there the recorder writes, or an index that is taken from another place
            for is_there in (False, True):
                with self.subTest(words=" ".join(map(str, words)), is_there=is_there):
                    folder = self.place()
                    path = folder / f"out{ending}"
                    if is_there:
                        path.write_text("old")
                    before = listing(folder)
                    done = self.gpumem(*(path if word == "FILE" else word for word in words), folder=folder, check=False, preexec_fn=limit)
                    self.assertIn(done.returncode, (2, 3), done.stderr)
                    self.assertRegex(done.stderr.decode(errors="replace"), "exists|[Ff]ile too large|no room")
                    self.assertEqual(listing(folder), before, done.stderr)
                    self.assertTrue(not is_there or path.read_text() == "old")

    def test_names_that_commands_choose(self):
        """Beside the trace a device, a pipe or a link to one may lie under the name that a command would choose: refused, or another name, and no wait for a reader."""
        names = {("html",): ".html", ("flame",): ".flame.html", ("plot", "peak"): ".peak.png", ("bundle",): ".bundle.zip", ("export", "trace", "--names"): ".symbolized.gmtrace",
                 ("ranks", "--write-summaries"): ".gmtrace.summary"}
        for words, ending in names.items():
            for kind in ("pipe", "link"):
                with self.subTest(words=words, kind=kind):
                    folder = self.place()
                    trace, taken = folder / "run.gmtrace", folder / f"run{ending}"
                    trace.write_bytes(self.trace.read_bytes())
                    os.mkfifo(taken if kind == "pipe" else folder / "pipe")
                    if kind == "link":
                        taken.symlink_to("pipe")
                    before = listing(folder)
                    done = self.gpumem(*words, trace, folder=folder, check=False)
                    self.assertNotEqual(done.returncode, 0, done.stderr)
                    self.assertIn(taken.name.encode(), done.stderr)
                    self.assertEqual(listing(folder), before)


if __name__ == "__main__":
    truth.run_tests(globals())

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Every command of a sanitized gpumemshim, as it is linked, on 60 traces and 60 hostile ones: it ends by itself with an exit code that is documented, and no
sanitizer has a word to say, in it or in what it starts.

    python tests/sanitizers/commands_test.py --gpumem build/asan/bin/gpumemshim --made build/asan/tests/sanitizers/made_traces
    ... --count 4 --command report --command serve     fewer traces, some commands

Exit code 1 where something was found; each finding names the command line, and the trace is kept.
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

EXPORTS = """pytorch chrome perfetto hta csv jsonl rmm pprof speedscope collapsed openmetrics gpumemoryprofiler-json gpumemoryprofiler-log
gpumemoryprofiler-timeline memorydebugger-snapshots memorydebugger-comparison memorydebugger-report memorydebugger-log tinytorch-status tinytorch-log parquet"""
# Command -> what is asked of one trace, {t} its path, {out} a folder for what is written. A command that no trace is given to has its reason.
OF_A_TRACE = {
    "report": ["{t}", "--json {t}", "--full {t}", "peak leaks oom {t}", "steps sizes info --json {t}"],
    "peak": ["{t}", "--json {t}"],
    "timeline": ["{t}", "--json {t}"],
    "leaks": ["{t}", "--json {t}"],
    "oom": ["{t}", "--json {t}"],
    "explain": ["--full {t}", "--json {t}"],
    "fragmentation": ["{t}", "--json {t}"],
    "html": ["{t} -o {out}/page.html"],
    "plot": [f"{kind} {{t}} -o {{out}}/{kind}.png" for kind in ("timeline", "peak", "treemap", "modules", "steps", "leaks", "fragmentation", "addresses")],
    "flame": ["{t} -o {out}/flame.html"],
    "tree": ["{t}", "--json {t}"],
    "table": ["{t}", "--by module {t}", "--by stack {t}"],
    "sizes": ["{t}", "--json {t}"],
    "at": ["1ms {t}", "end --json {t}"],
    "steps": ["{t}", "--json {t}"],
    "stages": ["{t}", "--json {t}"],
    "modules": ["{t}", "--json {t}"],
    "model": ["{t}", "--json {t}"],
    "diff": ["{t} {other}", "--json {other} {t}", "--table {t} {other}"],
    "ranks": ["--json {folder}", "--write-summaries {folder}", "--json {folder}"],
    "check": ["--max-peak 1GiB {t}", "--baseline {other} --tolerance 2% {t}"],
    "forecast": ["{t}", "--json {t}"],
    "live": ["--once {t}", "--json {t}"],
    "info": ["{t}", "--json {t}"],
    "bundle": ["-o {out}/bundle.zip {t}"],
    "export": [*(f"{kind} {{t}} -o {{out}}/{kind}" for kind in EXPORTS.split()), "collapsed --leaks --count {t}", "packets {t}", "events --json {t}", "trace -o {out}/whole.gmtrace {t}", "trace --names -o {out}/named.gmtrace {t}"],
    "import": ["{t} -o {out}/imported.gmtrace"],
    "sql": ["{t} 'SELECT count(*), sum(size) FROM events'", "{t} 'SELECT * FROM blocks LIMIT 5'"],
    "doctor": ["--cross-check {t}"],
}
SERVED = "serve"  # has a part of its own: it is asked over HTTP
WITHOUT_A_TRACE = {
    "run": "starts a program", "attach": "enters a program", "ctl": "asks a program", "mcp": "starts Python",
    "plan": "runs a program", "replay": "runs PyTorch", "simulate": "runs a program", "sweep": "runs programs",
}  # fmt: skip
NO_SUCH_MOMENT = r"at (1ms|end) "  # of a trace without events: exit code 2, as for a mark that it does not have
EXIT_CODES = {0, 1, 2, 3, 4, 5}
FOUND = 99  # the exit code of a sanitizer that found something
LIMIT_S = 300  # stops what would never end; a trace of a few kilobytes takes seconds
PAGES = ("/", "/data", "/live", "/metrics", "/events", "/nothing")


def commands_of(gpumem):
    """As the help lists them, sections of the report last."""
    texts = [subprocess.run([gpumem, *of, "--help"], capture_output=True, text=True, check=True).stdout for of in ([], ["report"])]
    return re.findall(r"^(?:[A-Z][a-z]+)? +([a-z]+)  +\S", "".join(texts), re.M)


class Runner:
    def __init__(self, arguments, folder):
        self.gpumem, self.folder = str(arguments.gpumem.resolve()), folder
        self.codes = collections.Counter()

    def environment(self, place):
        """Reports go into files, also those of processes that the command starts."""
        options = f"exitcode={FOUND}:log_path={place}/sanitizer:allocator_may_return_null=1:handle_abort=1"
        base = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "LD_"))}
        return {**base, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": f"{options}:print_stacktrace=1", "TSAN_OPTIONS": options, "XDG_CACHE_HOME": str(place / "cache"),
                "XDG_RUNTIME_DIR": str(place), "TERM": "dumb"}  # fmt: skip

    def place(self, name):
        """A folder of its own for what one trace's commands write."""
        place = self.folder / name
        (place / "out").mkdir(parents=True, exist_ok=True)
        return place

    def judge(self, line, place, code, errors):
        """What is wrong with how it ended, or None."""
        self.codes[code] += 1
        if code == 2 and not re.match(NO_SUCH_MOMENT, line):
            return f"{line}\nis no usage of it: {errors[-500:]}"
        reports = sorted(place.glob("sanitizer.*"))
        said = reports[0].read_text(errors="replace") if reports else errors
        for report in reports:
            report.unlink()
        if reports or code == FOUND or re.search(r"runtime error: |Sanitizer: ", errors):
            return f"{line}\n{said[:3000]}"
        return None if code in EXIT_CODES else f"{line}\nended with {code}: {errors[-500:]}"

    def run(self, words, place):
        line = " ".join(words)
        try:
            done = subprocess.run([self.gpumem, *words], cwd=place, env=self.environment(place), capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"{line}\nno end after {LIMIT_S} s"
        return self.judge(line, place, done.returncode, done.stderr.decode(errors="replace"))

    def of_a_trace(self, trace, others, commands):
        """Every command on one trace. What is wrong."""
        place = self.place(f"{trace.parent.name}-{trace.stem}")
        alone = place / "job"
        alone.mkdir()
        shutil.copy(trace, alone / "rank.gmtrace")
        names = {"t": str(trace), "other": str(others[int(trace.stem) % len(others)]), "folder": str(alone), "out": str(place / "out")}
        found = []
        for command in commands:
            for asked in OF_A_TRACE.get(command, ()):
                words = [word.format(**names) for word in re.findall(r"'[^']*'|\S+", asked)]
                found += filter(None, [self.run([command, *(word.strip("'") for word in words)], place)])
            for file in (place / "out").iterdir():
                file.unlink() if not file.is_dir() else shutil.rmtree(file)
        return found

    def served(self, traces):
        """A server of all traces, asked by several at once."""
        place = self.place("served")
        folder = place / "traces"
        folder.mkdir()
        for trace in traces:
            shutil.copy(trace, folder / f"{trace.parent.name}-{trace.name}")
        command = [self.gpumem, "serve", "--json", "--interval", "0.1", str(folder)]
        server = subprocess.Popen(command, cwd=place, env=self.environment(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = server.stdout.readline()
        if first:
            said = json.loads(first)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda path: ask(said["port"], said["token"], path), PAGES * 8))
            print(f"  serve: {collections.Counter(answers)}")
            server.send_signal(signal.SIGINT)
        try:
            _, errors = server.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            return [f"{' '.join(command)}\nno end after {LIMIT_S} s"]
        code = 0 if server.returncode == -signal.SIGINT else server.returncode
        return [found for found in [self.judge(" ".join(command), place, code, errors)] if found]


def ask(port, token, path):
    """The status of the answer; of a stream its head and one event."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", f"{path}?token={token}")
        answer = connection.getresponse()
        answer.read(100 if path == "/events" else None)
        return answer.status
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def tell(some, found):
    for each in some:
        print(each, "\n", flush=True)
    found += some


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpumem", type=pathlib.Path, required=True)
    parser.add_argument("--made", type=pathlib.Path, required=True, help="the program that writes the traces")
    parser.add_argument("--count", type=int, default=60, help="traces of each kind")
    parser.add_argument("--command", action="append", help="only these")
    return parser.parse_args()


def main():
    arguments = arguments_of()
    there = commands_of(arguments.gpumem)
    unknown = set(there) ^ {*OF_A_TRACE, SERVED, *WITHOUT_A_TRACE}
    if unknown:
        print(f"commands_test: {', '.join(sorted(unknown))}: in the help or in this test's tables, and not in both")
        return 1
    commands = [command for command in there if not arguments.command or command in arguments.command]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpumemshim-commands-"))
    subprocess.run([arguments.made, folder], check=True)
    good, hostile = (sorted((folder / kind).glob("*.gmtrace"))[: arguments.count] for kind in ("good", "hostile"))
    runner = Runner(arguments, folder)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = []
        for some in pool.map(lambda trace: runner.of_a_trace(trace, good, commands), good + hostile):
            tell(some, found)
    if SERVED in commands:
        tell(runner.served(good + hostile), found)
    print(f"{len(commands)} commands, {len(good)} traces, {len(hostile)} hostile: {sum(runner.codes.values())} runs, exit codes {dict(sorted(runner.codes.items()))}, {len(found)} findings")
    if found:
        print(f"the traces are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

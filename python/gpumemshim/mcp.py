# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A server of the Model Context Protocol: an assistant may ask gpumemshim about the traces of a folder. It only reads.

    pip install mcp
    gpumemshim mcp --config /path/to/runs       the settings of a client, which starts `gpumemshim mcp /path/to/runs`
    python -m gpumemshim.mcp /path/to/runs      the same server

Without a folder: the working directory. Traces and snapshots in it and below may be asked about; nothing outside it is read, and nothing is written but the
indexes of `gpumemshim sql`, in the user's cache. It talks on standard input and output, and opens no port.
"""

import pathlib
import sys

from gpumemshim import _program
from gpumemshim._error import GpumemError
from gpumemshim._tables import human

MOST_TEXT = 40_000  # characters of an answer; more would fill an assistant's context
MOST_TRACES = 200
ENDINGS = (".gmtrace", ".pickle", ".pkl")


class Traces:
    """The traces of a folder, and what gpumemshim says of them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()

    def place(self, trace):
        """The path of a trace, or of a folder of traces, that was named relative to the folder; ValueError where it lies outside or is none."""
        path = (self.folder / trace).resolve()
        for each in [path, *(path.glob("*") if path.is_dir() else ())]:  # of a folder one is taken by its name
            if not each.resolve().is_relative_to(self.folder):
                raise ValueError(f"{trace} lies outside {self.folder}, which is all that may be read")
        if not path.is_dir() and not (path.is_file() and path.suffix in ENDINGS):
            raise ValueError(f"there is no trace {trace} in {self.folder}. list_traces names those that there are")
        return str(path)

    def ask(self, traces, *command, words=(), query=""):
        """What a command prints of these traces, as text; of a long answer the beginning. Errors are answers, too. `command` is its name with flags, and has nothing of
        an assistant's: its words stand behind "--", where nothing is a flag, and its query on standard input."""
        try:
            said = _program.run(*command, "--", *words, *map(self.place, traces), query=query)
        except (GpumemError, ValueError, OSError) as error:
            return f"no answer: {error}"
        return said if len(said) <= MOST_TEXT else f"{said[:MOST_TEXT]}\n... cut after {MOST_TEXT:,} of {len(said):,} characters; ask for less"

    def listed(self):
        found = sorted((path for path in self.folder.rglob("*") if path.suffix in ENDINGS and path.is_file()), key=lambda path: -path.stat().st_mtime)
        lines = [f"{path.relative_to(self.folder)}  {human(path.stat().st_size)}" for path in found[:MOST_TRACES]]
        more = [f"... {len(found) - MOST_TRACES} older ones"] if len(found) > MOST_TRACES else []
        return "\n".join(lines + more) or f"no traces in {self.folder}. `gpumemshim run -- python train.py` records one"


def tools_of(traces):
    """The functions that become tools: their names, arguments and docstrings are what an assistant sees."""

    def list_traces() -> str:
        """Lists the recorded traces and memory snapshots that can be asked about, newest first."""
        return traces.listed()

    def report(trace: str, full: bool = False) -> str:
        """One screen about a run: verdict, peak of GPU memory by category and by line of code, timeline, what nvidia-smi shows. full: also leaks, fragmentation, notes."""
        return traces.ask([trace], "report", *(["--full"] if full else []))

    def at(trace: str, moment: str = "peak") -> str:
        """What was alive at a moment, by category, module and line. moment: "peak", "end", "12.5s", "step 3", or the name of a mark."""
        if moment.strip() in ("", "step"):
            return "no answer: a moment is peak, end, a time, a step with its number, or a mark"
        return traces.ask([trace], "at", "--top", "20", words=[moment])

    def leaks(trace: str) -> str:
        """Which lines of code keep more memory from step to step, and what was never freed."""
        return traces.ask([trace], "leaks")

    def steps(trace: str) -> str:
        """Memory of each training step: start, peak, end, growth."""
        return traces.ask([trace], "steps")

    def modules(trace: str) -> str:
        """What each module of the model holds and allocated."""
        return traces.ask([trace], "modules")

    def oom(trace: str) -> str:
        """Why a run went out of memory: who asked, who filled the GPU, what would have fit."""
        return traces.ask([trace], "oom")

    def explain(trace: str) -> str:
        """Walks the checklists for out of memory, leaks, fragmentation and the peak: what was found, and what each change would save in bytes."""
        return traces.ask([trace], "explain", "--no-replay")

    def forecast(trace: str) -> str:
        """Whether and when memory runs out, if it goes on as it did."""
        return traces.ask([trace], "forecast")

    def diff(a: str, b: str) -> str:
        """Why run b needs more or less memory than run a: a sentence of cause, then categories, modules and lines."""
        return traces.ask([a, b], "diff")

    def sql(query: str, trace: str) -> str:
        """Answers one SELECT (DuckDB's SQL) over a trace. Tables: events, blocks, segments, stacks, frames, steps, modules, marks, samples, losses, processes;
        live_at('peak') is a table of what was alive; human(bytes) formats. `SELECT table_name, column_name FROM information_schema.columns` lists columns."""
        return traces.ask([trace], "sql", "--limit", "200", query=query)

    return [list_traces, report, at, leaks, steps, modules, oom, explain, forecast, diff, sql]


def server_of(folder):
    """The server, by the official SDK; of its first version too."""
    try:
        from mcp.server import MCPServer as Server
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Server
    from mcp.types import ToolAnnotations

    instructions = "GPU memory of recorded programs. Begin with list_traces, then report. Sizes are in binary units and exact; what a trace does not know is said to be not known."
    server = Server("gpumemshim", instructions=instructions)
    for function in tools_of(Traces(folder)):
        server.tool(annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False))(function)
    return server


def main(words=None):
    words = list(sys.argv[1:] if words is None else words)
    if len(words) > 1 or words[:1] in (["-h"], ["--help"]):
        print(__doc__, file=sys.stderr)
        return 0 if words[:1] in (["-h"], ["--help"]) else 2
    folder = pathlib.Path(words[0] if words else ".")
    if not folder.is_dir():
        print(f"gpumemshim.mcp: {folder} is not a folder. Name the one that the traces lie in", file=sys.stderr)
        return 2
    try:
        _program.find()
        server = server_of(folder)
    except GpumemError as error:
        print(f"gpumemshim.mcp: {error}", file=sys.stderr)
        return 127
    except ImportError as error:
        print(f"gpumemshim.mcp: {error}. Install the protocol's package: pip install mcp", file=sys.stderr)
        return 127
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

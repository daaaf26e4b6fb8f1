# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim mcp`: which Python it finds, what it says where there is none, and what that Python is started with. The protocol itself is tested with the real
client, in integrations_test.py; here a package of a few lines stands for the SDK.

    python tests/e2e/mcp_test.py --build build/release
"""

import importlib
import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import truth

SETUP = None
RUN = subprocess.run
# Prints what would be served instead of serving it.
SERVER = """
import json, os
class MCPServer:
    def __init__(self, name, instructions):
        self.tools = {}
    def tool(self, annotations):
        def add(function):
            self.tools[function.__name__] = annotations
            self.listed = function if function.__name__ == "list_traces" else self.listed
        return add
    listed = None
    def run(self):
        print(json.dumps({"tools": self.tools, "gpumemshim": os.environ["GPUMEMSHIM_PROGRAM"], "listed": self.listed()}))
"""
TYPES = "def ToolAnnotations(**values):\n    return values\n"


class McpTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-mcp-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.runs = self.folder / "my runs"
        self.runs.mkdir()
        (self.runs / "a.gmtrace").write_bytes(b"x" * 2048)
        self.sdk = self.folder / "sdk"
        (self.sdk / "mcp" / "server").mkdir(parents=True)
        (self.sdk / "mcp" / "__init__.py").touch()
        (self.sdk / "mcp" / "server" / "__init__.py").write_text(SERVER)
        (self.sdk / "mcp" / "types.py").write_text(TYPES)

    def ask(self, *arguments, cwd=None, **environment):
        base = {"PATH": "/nowhere", "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        return subprocess.run([SETUP.gpumem, "mcp", *map(str, arguments)], cwd=cwd or self.folder, env={**base, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def test_serves_the_folder(self):
        (self.runs / "mcp.py").write_text("raise SystemExit('imported from the folder of the traces')")
        (self.runs / "json.py").write_text("raise SystemExit('imported from the folder of the traces')")
        done = self.ask("--python", SETUP.python, cwd=self.runs, PYTHONPATH=str(self.sdk))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["listed"].split()[0], "a.gmtrace")
        self.assertIn("sql", said["tools"])
        self.assertEqual({tuple(sorted(annotations.items())) for annotations in said["tools"].values()}, {(("openWorldHint", False), ("readOnlyHint", True))})
        self.assertEqual(said["gpumemshim"], os.path.realpath(SETUP.gpumem))

    def test_the_environment_s_python_is_found(self):
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            done = self.ask("my runs", PYTHONPATH=str(self.sdk), **{name: str(pathlib.Path(SETUP.python).parents[1])})
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.ask("my runs", PYTHONPATH=str(self.sdk), GPUMEMSHIM_INTERPRETER=SETUP.python, VIRTUAL_ENV="/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_settings_of_a_client(self):
        done = self.ask("--config", "--python", SETUP.python, "my runs", PYTHONPATH=str(self.sdk))
        self.assertEqual(done.returncode, 0, done.stderr)
        server = json.loads(done.stdout)["mcpServers"]["gpumemshim"]
        self.assertEqual(server, {"command": os.path.realpath(SETUP.gpumem), "args": ["mcp", "--python", SETUP.python, str(self.runs)]})
        again = subprocess.run([server["command"], *server["args"]], env={"PYTHONPATH": str(self.sdk)}, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("a.gmtrace", again.stdout, again.stderr)

    def test_what_is_missing_is_said(self):
        done = self.ask("my runs")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("there is no Python here", done.stderr)
        done = self.ask("--python", "/nowhere/python", "my runs")
        self.assertEqual(done.returncode, 3)
        self.assertIn("/nowhere/python is not there", done.stderr)
        done = self.ask("--python", SETUP.python, "my runs")  # the tests' environment has no SDK
        self.assertEqual(done.returncode, 3)
        self.assertIn("has no package mcp. Install the protocol's package, `pip install mcp`", done.stderr)
        done = self.ask("--python", "/bin/false", "my runs")
        self.assertIn("/bin/false does not work as Python, exit code 1", done.stderr)
        for place in ("none", "my runs/a.gmtrace"):
            done = self.ask("--python", SETUP.python, place)
            self.assertEqual(done.returncode, 3)
            self.assertIn(f"{place} is not a folder", done.stderr)
        self.assertEqual(self.ask("a", "b").returncode, 2)


# What an assistant, or a page that it read, could put where a word is asked for.
HOSTILE = (
    ["--help", "-h", "--rules=/etc/passwd", "--rules", "--", "-", "-o/tmp/x", "--output=/tmp/x", "--unsafe", "@/etc/passwd", "--sysroot=/", "--sources=/"]
    + ["step --rules=/etc/passwd", "step --help", "step -h", "step  --help", "step\t--help", "step 3 --rules=/etc/passwd", "step", " step ", "peak --help"]
    + ["\n--help", " --help", "step\n--help", "", " ", "../secret.gmtrace", "/etc/passwd", "/etc", "~", "..", ".", "a.gmtrace/../../secret.gmtrace"]
    + ["link.gmtrace", "away", "away/secret.gmtrace", "linked", "pipe.gmtrace", "a\0b", "\ud800", "x" * 5000, "$(id)", "`id`", "; id", "a.gmtrace"]
    + [".read /etc/passwd", "SELECT * FROM read_csv('/etc/passwd')", "COPY (SELECT 1) TO 'x'", "INSTALL httpfs", "-- --help"]
)


class ToolsTest(unittest.TestCase):
    """Every tool with every argument: an assistant's words are never flags, and name nothing outside of the folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-mcp-tools-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.runs, outside = self.folder / "runs", self.folder / "outside"
        for each in (self.runs, outside, self.runs / "linked"):
            each.mkdir()
        for place in (self.folder, outside, self.runs):
            (place / ("a.gmtrace" if place == self.runs else "secret.gmtrace")).write_bytes(b"GMT1" + b"topsecret" * 200)
        (self.runs / "link.gmtrace").symlink_to(outside / "secret.gmtrace")
        (self.runs / "away").symlink_to(outside)
        (self.runs / "linked" / "b.gmtrace").symlink_to(outside / "secret.gmtrace")
        os.mkfifo(self.runs / "pipe.gmtrace")
        sys.path.insert(0, str(truth.ROOT / "python"))
        self.addCleanup(sys.path.remove, str(truth.ROOT / "python"))
        self.mcp = importlib.import_module("gpumemshim.mcp")
        self.started = []
        self.addCleanup(setattr, self.mcp._program.subprocess, "run", subprocess.run)
        self.mcp._program.subprocess.run = self.start
        self.enterContext(unittest.mock.patch.dict(os.environ, GPUMEMSHIM_PROGRAM=str(SETUP.gpumem)))

    def start(self, words, **options):
        self.started.append([str(word) for word in words[1:]])
        return RUN(words, cwd=self.folder, timeout=60, **options)

    def calls(self):
        """(tool, the arguments that it got)"""
        for tool in self.mcp.tools_of(self.mcp.Traces(self.runs)):
            names = [name for name, parameter in inspect.signature(tool).parameters.items() if parameter.annotation is str]
            for name in names:
                for word in HOSTILE:
                    yield tool, {**{each: "SELECT 1" if each == "query" else "a.gmtrace" for each in names}, name: word}

    def test_no_word_is_a_flag_and_nothing_outside_is_named(self):
        tools = {tool.__name__ for tool, _ in self.calls()}
        self.assertEqual(tools, {"report", "at", "leaks", "steps", "modules", "oom", "explain", "forecast", "diff", "sql"})
        allowed = [["at", "--top", "20"], ["sql", "--limit", "200"], ["explain", "--no-replay"], *([name] for name in tools)]
        for tool, arguments in self.calls():
            with self.subTest(tool=tool.__name__, **arguments):
                self.started.clear()
                answer = tool(**arguments)
                self.assertNotIn("Usage:", answer)
                self.assertNotIn("/etc/passwd, line", answer)
                self.assertNotIn("topsecret", answer)
                self.assertNotIn("root:", answer)
                for words in self.started:
                    mark = words.index("--")
                    self.assertIn(words[:mark], allowed)
                    places = words[mark + 2 if tool.__name__ == "at" else mark + 1 :]
                    self.assertTrue(places)
                    for place in places:
                        self.assertIn(pathlib.Path(place), (self.runs / "a.gmtrace", self.runs), words)
                        self.assertEqual(os.path.realpath(place), place)

    def test_folders_with_a_way_out_are_refused(self):
        traces = self.mcp.Traces(self.runs)
        for place in (".", "linked", "away", "link.gmtrace"):
            self.assertIn("lies outside", traces.ask([place], "report"))
        self.assertIn("there is no trace", traces.ask(["pipe.gmtrace"], "report"))
        self.assertEqual(self.started, [])


if __name__ == "__main__":
    truth.run_tests(globals())

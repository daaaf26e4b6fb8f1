# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What assistants load, followed: each command line of skills/gpumemshim/SKILL.md runs on the traces that come with gpumemshim and prints what stands there, and the manifest
for registries (packaging/mcp/server.json) is as its format wants it and starts the server.

    python tests/e2e/assistants_test.py --build build/release
    GPUMEMSHIM_UPDATE_GOLDEN=1 python tests/e2e/assistants_test.py --build build/release     writes what SKILL.md shows anew

The rules are those of agentskills.io/specification and of the registry's schema 2025-09-29 (modelcontextprotocol/registry, docs/reference/server-json).
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import mcp_test
import truth

SETUP = None
ROOT = pathlib.Path(__file__).resolve().parents[2]
SKILL = ROOT / "skills" / "gpumemshim" / "SKILL.md"
MANIFEST = ROOT / "packaging" / "mcp" / "server.json"
BLOCK = re.compile(r"```console\n\$ ([^\n]+)\n(.*?)```", re.S)
ROW = re.compile(r"^\| ([^|]+) \| `(gpumemshim [^`]+)` \| ([^|]+) \|$", re.M)
# What stands for FILE in the table of questions.
EXAMPLES = {"oom": "oom", "leaks": "leak", "fragmentation": "fragmentation", "ranks": "ranks"}


def run(line, folder):
    """As a shell with gpumemshim on PATH and no Python beside it does; standard output and error together."""
    environment = {"PATH": f"{pathlib.Path(SETUP.gpumem).parent}:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8", "COLUMNS": "110"}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)


def front_matter(text):
    head = re.match(r"---\n(.*?)\n---\n", text, re.S)[1]
    return dict(re.match(r"([a-z-]+): (.+)$", line).groups() for line in head.splitlines())


class SkillTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-skill-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.text = SKILL.read_text(encoding="utf-8")

    def test_the_front_matter_is_as_the_format_wants_it(self):
        fields = front_matter(self.text)
        self.assertLessEqual(set(fields), {"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
        self.assertEqual(fields["name"], SKILL.parent.name)
        self.assertRegex(fields["name"], r"^[a-z0-9]+(-[a-z0-9]+)*$")
        self.assertLessEqual(len(fields["name"]), 64)
        self.assertTrue(0 < len(fields["description"]) <= 1024)
        self.assertLessEqual(len(fields["compatibility"]), 500)
        for value in fields.values():  # plain YAML: nothing in it begins a comment or another key
            self.assertNotRegex(value, r"(: | #|^[\[{&*!|>'\"%@`])")
        self.assertLess(len(self.text.splitlines()), 500)

    def test_what_is_shown_is_printed(self):
        def shown(found):
            return f"```console\n$ {found[1]}\n{run(found[1], self.folder).stdout.rstrip()}\n```"

        again = BLOCK.sub(shown, self.text)
        if os.environ.get("GPUMEMSHIM_UPDATE_GOLDEN"):
            SKILL.write_text(again, encoding="utf-8")
            return
        self.assertGreaterEqual(len(BLOCK.findall(self.text)), 3)
        self.assertEqual(self.text, again)

    def test_each_question_has_an_answer_with_what_is_to_be_read(self):
        rows = ROW.findall(self.text)
        self.assertGreaterEqual(len(rows), 11)
        for question, line, read in rows:
            words = shlex.split(line)
            name = words[1]
            if name == "plan":  # runs a program; planned in plan_test.py
                continue
            with self.subTest(question=question):
                if name == "sql" and not (pathlib.Path(SETUP.gpumem).parents[1] / "lib/gpumemshim/libduckdb.so").exists():
                    continue
                example = EXAMPLES.get(name, "leak")
                line = re.sub(r"\b(FILE|DIR)\b", f"--example {example}", line).replace(" A B", " --example train --example leak").replace("SELECT ...", "SELECT count(*) FROM events")
                done = run(line, self.folder)
                self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}")
                for phrase in re.findall(r'"([^"]+)"', read):
                    self.assertIn(phrase.lower(), done.stdout.lower(), line)
                for phrase in re.findall(r"`(at [^`]+)`", read):
                    self.assertEqual(run(f"gpumemshim {phrase} --example {example}", self.folder).returncode, 0, phrase)

    def test_exit_codes_are_those_of_the_documents(self):
        codes = set(re.findall(r"^\| (\d)", (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8"), re.M))
        own = {code for cell in re.findall(r"^\| ([\d, ]+) \|", self.text, re.M) for code in cell.split(", ")}
        self.assertEqual(own, codes)


class ManifestTest(unittest.TestCase):
    """With the few lines that stand for the protocol's package in mcp_test.py; integrations_test.py asks by the real client."""

    def setUp(self):
        mcp_test.SETUP = SETUP
        self.client = mcp_test.McpTest("test_serves_the_folder")
        self.client.setUp()
        self.addCleanup(self.client.doCleanups)
        self.manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))

    def test_it_is_as_the_format_wants_it(self):
        server, package = self.manifest, self.manifest["packages"][0]
        self.assertEqual(set(server) - {"$schema", "name", "description", "version", "repository", "websiteUrl", "packages"}, set())
        self.assertRegex(server["name"], r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$")
        self.assertTrue(0 < len(server["description"]) <= 100)
        self.assertEqual(set(package) - {"registryType", "registryBaseUrl", "identifier", "version", "fileSha256", "runtimeHint", "transport", "runtimeArguments", "packageArguments", "environmentVariables"}, set())
        self.assertLessEqual({"registryType", "identifier", "version", "transport"}, set(package))
        self.assertEqual(package["transport"], {"type": "stdio"})
        for argument in package["runtimeArguments"] + package["packageArguments"]:
            self.assertIn(argument["type"], ("positional", "named"))
            self.assertTrue("name" in argument if argument["type"] == "named" else {"value", "valueHint"} & set(argument))
            self.assertEqual(set(argument) - {"type", "name", "value", "valueHint", "description", "format", "isRequired", "isRepeated", "placeholder", "default"}, set())

    def test_it_is_of_this_version_and_the_package_names_it(self):
        version = re.search(r'^__version__ = "([^"]+)"', (ROOT / "python/gpumemshim/__init__.py").read_text(), re.M)[1]
        self.assertEqual([self.manifest["version"], self.manifest["packages"][0]["version"]], [version, version])
        self.assertEqual(self.manifest["packages"][0]["identifier"], "gpumemshim")
        # By this line the registry knows that who owns the package wants the server to be listed.
        self.assertIn(f"<!-- mcp-name: {self.manifest['name']} -->", (ROOT / "python" / "README.md").read_text(encoding="utf-8"))

    def test_its_command_serves_a_folder(self):
        """What a client runs, with the built program in the place of `uvx --with mcp gpumemshim`."""
        package = self.manifest["packages"][0]
        self.assertEqual([package["runtimeHint"], *(word for each in package["runtimeArguments"] for word in (each["name"], each["value"]))], ["uvx", "--with", "mcp"])
        words = [argument.get("value") or {"folder": str(self.client.runs)}[argument["valueHint"]] for argument in package["packageArguments"]]
        self.assertEqual(words[0], "mcp")
        done = self.client.ask("--python", SETUP.python, *words[1:], PYTHONPATH=str(self.client.sdk))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(set(said["tools"]), set(re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs/commands/mcp.md").read_text().partition("| tool |")[2], re.M)))))


if __name__ == "__main__":
    truth.run_tests(globals())

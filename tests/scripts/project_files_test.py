# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The files that a host of repositories and a registry of citations read: each has what its format asks for, and says what is so.

The issue forms are read as YAML where a Python here has PyYAML (scripts/docs_site makes one); elsewhere line by line.

    python tests/scripts/project_files_test.py
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
# https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-githubs-form-schema
TO_JSON = "import json, sys, yaml; print(json.dumps([yaml.safe_load(open(name)) for name in sys.argv[1:]]))"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def as_yaml(*paths):
    """Their contents, or None where no Python here has PyYAML."""
    for python in (sys.executable, ROOT / "build" / "docs_site" / "venv" / "bin" / "python"):
        if pathlib.Path(python).exists():
            done = subprocess.run([python, "-c", TO_JSON, *map(str, paths)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return json.loads(done.stdout)
    return None


class ProjectFilesTest(unittest.TestCase):
    def test_forms_ask_for_the_bundle(self):
        self.assertGreaterEqual(len(FORMS), 2)
        for path in FORMS:
            self.assertIn("gpumemshim bundle", path.read_text(encoding="utf-8"), path.name)

    def test_forms_are_as_the_host_wants_them(self):
        forms = as_yaml(*FORMS)
        if forms is None:
            print("not asked: the forms as YAML, since no Python here has PyYAML")
            return
        for path, form in zip(FORMS, forms):
            with self.subTest(form=path.name):
                self.assertEqual(set(form) - {"name", "description", "title", "labels", "assignees", "projects", "type", "body"}, set())
                self.assertTrue(form["name"] and form["description"])
                items = form["body"]
                self.assertTrue(any(item["type"] != "markdown" for item in items))
                ids = [item["id"] for item in items if "id" in item]
                self.assertEqual(len(ids), len(set(ids)))
                for item in items:
                    self.assertEqual(set(item) - {"type", "id", "attributes", "validations"}, set())
                    self.assertIn(item["type"], KINDS)
                    attributes = item["attributes"]
                    self.assertTrue(attributes["value"] if item["type"] == "markdown" else attributes["label"])
                    self.assertRegex(item.get("id", "a"), r"^[A-Za-z0-9_-]+$")
                    if item["type"] == "dropdown":
                        self.assertEqual(len(attributes["options"]), len(set(attributes["options"])))

    def test_the_citation_has_what_its_format_requires_and_this_version(self):
        text = read("CITATION.cff")
        keys = dict(re.findall(r"^([a-z-]+):[ ]*(.*)$", text, re.M))
        self.assertLessEqual({"cff-version", "message", "title", "authors"}, set(keys))  # required by 1.2.0
        self.assertEqual(keys["cff-version"], "1.2.0")
        self.assertEqual(keys["version"], re.search(r'^__version__ = "([^"]+)"', read("python/gpumemshim/__init__.py"), re.M)[1])
        self.assertEqual(keys["license"], "Apache-2.0")

    def test_security_names_commands_that_are_there(self):
        for name in re.findall(r"\]\(([^)#]+)\)", read("SECURITY.md") + read("CODE_OF_CONDUCT.md")):
            self.assertTrue((ROOT / name).exists(), name)


if __name__ == "__main__":
    unittest.main()

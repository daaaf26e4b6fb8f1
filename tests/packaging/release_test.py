# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Of a release, what needs no package: the source distribution, the bill of materials, whether the repository is ready, whether names of ours are taken.

    python tests/packaging/release_test.py --build build/release
"""

import argparse
import email
import io
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "scripts/lib"))
sys.dont_write_bytecode = True
import licences  # noqa: E402
import release  # noqa: E402
import release_checks  # noqa: E402
import sbom  # noqa: E402
import source_package  # noqa: E402

LINKS = '[project]\nname = "gpumemshim"\n[project.urls]\nHomepage = "https://example.org"\n'


def call(*words, **variables):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **variables})
    return done.returncode, done.stdout + done.stderr


class SourcePackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="gpumemshim-sdist-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.path = source_package.make(ROOT, cls.folder)
        with tarfile.open(cls.path) as archive:
            archive.extractall(cls.folder / "unpacked", filter="data")
        cls.tree = cls.folder / "unpacked" / f"gpumemshim-{release.version()}"

    def test_it_has_every_file_and_says_who_builds_it(self):
        self.assertEqual([name for name in source_package.names(ROOT) if not (self.tree / name).is_file()], [])
        self.assertTrue(os.access(self.tree / "scripts/build", os.X_OK))
        made = tomllib.loads((self.tree / "pyproject.toml").read_text())
        self.assertEqual(made["build-system"], {"requires": ["pip"], "build-backend": "source_backend", "backend-path": ["scripts/lib"]})
        ours = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
        self.assertEqual(made, {"build-system": made["build-system"], "project": {**ours, "readme": "python/README.md"}})
        information = email.message_from_string((self.tree / "PKG-INFO").read_text())
        self.assertEqual([information[field] for field in ("Metadata-Version", "Name", "Version", "License-Expression", "License-File")],
                         ["2.4", "gpumemshim", release.version(), "Apache-2.0", "LICENSE"])

    def test_made_of_itself_it_is_the_same(self):
        """Elsewhere, at another time, where there is no git: byte by byte."""
        for path in self.tree.rglob("*"):
            os.utime(path, (1577836800, 1577836800))
        (self.folder / "again").mkdir()
        self.assertEqual(source_package.make(self.tree, self.folder / "again").read_bytes(), self.path.read_bytes())

    def test_metadata_can_be_asked_without_a_compiler(self):
        ask = "import source_backend, sys; print(source_backend.prepare_metadata_for_build_wheel(sys.argv[1]))"
        code, said = call(sys.executable, "-c", ask, self.folder / "metadata", PYTHONPATH=str(self.tree / "scripts/lib"))
        self.assertEqual((code, said), (0, f"gpumemshim-{release.version()}.dist-info\n"))
        self.assertIn("Requires-Python: >=3.9\n", (self.folder / "metadata" / said.strip() / "METADATA").read_text())

    def test_it_says_which_packages_are_missing(self):
        """And installs none, whoever calls it."""
        (self.folder / "bin").mkdir()
        for name, text in {"dpkg-query": "", "apt-get": "echo apt-get was called; exit 1", "sudo": "echo sudo was called; exit 1"}.items():
            (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / "bin" / name).chmod(0o755)
        build = "import source_backend, sys; source_backend.build_wheel(sys.argv[1])"
        code, said = call(sys.executable, "-c", build, self.folder, PYTHONPATH=str(self.tree / "scripts/lib"), PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"Debian packages are missing that building needs\. Install them as root: apt-get install --no-install-recommends .*libprotobuf-dev .*libabsl-dev ")
        self.assertIn("gpumemshim: scripts/bootstrap --no-root failed; what is above says why.", said)
        self.assertNotIn("was called", said)
        self.assertFalse((self.tree / ".venv").exists())


class BillTest(unittest.TestCase):
    def made(self, files=()):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in dict(files).items():
                (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(folder) / name).write_text(text)
            return sbom.made("1.2.3", pathlib.Path(folder))

    def test_it_has_every_part_with_its_licence(self):
        bill = json.loads(self.made())
        self.assertEqual({part["name"] for part in bill["components"]}, {*licences.PARTS, "duckdb"})
        self.assertEqual(set(bill["dependencies"][0]["dependsOn"]), {part["bom-ref"] for part in bill["components"]})
        of = {part["name"]: part["licenses"] for part in bill["components"]}
        self.assertEqual(of["libdw-dev"], [{"license": {"id": "LGPL-3.0-or-later"}}])
        self.assertEqual(of["libstdc++-12-dev"], [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}])
        self.assertEqual(of["liblzma-dev"], [{"license": {"name": "public domain"}}])
        self.assertIn("1.5.6", next(part for part in bill["components"] if part["name"] == "duckdb")["version"])

    def test_the_same_parts_give_the_same_bytes_and_others_another_number(self):
        self.assertEqual(self.made(), self.made())
        other = self.made({"lib/gpumemshim/libduckdb.so": "another"})
        self.assertNotEqual(json.loads(other)["serialNumber"], json.loads(self.made())["serialNumber"])
        self.assertNotRegex(other, r"\d{4}-\d\d-\d\dT")

    def test_each_licence_is_one_of_spdx(self):
        try:
            from packaging.licenses import canonicalize_license_expression
        except ImportError:
            self.skipTest("the package packaging is not here (scripts/bootstrap --all)")
        for _, spdx in (*licences.PARTS.values(), licences.DUCKDB):
            self.assertEqual(canonicalize_license_expression(spdx), spdx)
        self.assertEqual(canonicalize_license_expression(licences.expression()), licences.expression())

    def test_our_own_name_is_no_address_before_it_is_ours(self):
        self.assertEqual("pkg:pypi/gpumemshim" in self.made(), release.PUBLISHED)


class RepositoryTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpumemshim-release-")
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.git("init", "-q")
        self.write("python/gpumemshim/__init__.py", '__version__ = "1.2.3"\n')
        self.write("python/pyproject.toml", LINKS)
        self.write("CHANGELOG.md", "# Changelog\n\n## 1.3.0, unreleased\n\n## 1.2.3, 2026-11-28\n")
        self.commit()

    def git(self, *words):
        return subprocess.run(["git", "-C", str(self.root), "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True, text=True).stdout

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "x", "--allow-empty")

    def wrong(self, version="1.2.3"):
        return "\n".join(release_checks.repository(self.root, version))

    def test_one_that_is_ready(self):
        self.assertEqual(self.wrong(), "")
        self.git("tag", "v1.2.3")
        self.assertEqual(self.wrong(), "", "tagged at this commit")

    def test_each_thing_that_is_in_the_way(self):
        self.assertIn("__init__.py says 1.2.3, not 1.2.4\nCHANGELOG.md has no section `## 1.2.4, YYYY-MM-DD`; it begins with `## 1.3.0, unreleased`", self.wrong("1.2.4"))
        self.assertIn("CHANGELOG.md has no section `## 1.3.0, YYYY", self.wrong("1.3.0"), "it is there as unreleased")
        self.assertIn("v1.2 is no version", self.wrong("v1.2"))
        self.git("tag", "v1.2.3")
        self.commit()
        self.assertIn("v1.2.3 is tagged already, at another commit", self.wrong())
        self.write("new.txt", "")
        self.assertIn("changes that are not committed", self.wrong())
        self.write("python/pyproject.toml", LINKS.partition("Homepage")[0])
        self.assertIn("names no links", self.wrong())

    def test_the_version_stands_in_one_place(self):
        """What this repository's files say of it is read from there, or has none."""
        self.assertIn('REGEX "^__version__ = "', (ROOT / "CMakeLists.txt").read_text())
        project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())
        self.assertNotIn("version", project["project"])
        self.assertEqual(project["tool"]["setuptools"]["dynamic"]["version"], {"attr": "gpumemshim.__version__"})
        self.assertRegex(release.version(), r"^\d+\.\d+\.\d+")
        self.assertTrue(re.search(rf"^## {re.escape(release.version())}, ", (ROOT / "CHANGELOG.md").read_text(), re.M))


class ScriptTest(unittest.TestCase):
    def test_it_makes_nothing_of_a_version_that_is_not_there(self):
        code, said = call(ROOT / "scripts/release", "0.0.1")
        self.assertEqual(code, 1)
        self.assertIn(f"scripts/release: python/gpumemshim/__init__.py says {release.version()}, not 0.0.1", said)
        self.assertFalse((ROOT / "build/release-0.0.1").exists())

    def test_the_checklist(self):
        script = types.SimpleNamespace(**runpy.run_path(str(ROOT / "scripts/release")))
        said = script.CHECKLIST.format(version="1.2.3", folder="build/release-1.2.3", commit="abc", published=script.FIRST, wheel="W.whl", sdist="S.tar.gz", tarball="", deb="", sbom="")
        self.assertRegex(said, r"(?s) 1\..* 2\. git tag -s v1\.2\.3 .* 4\. twine upload W\.whl S\.tar\.gz\n 5\..* 6\. .*PUBLISHED = True in scripts/lib/release\.py.*\n 7\.")
        self.assertTrue(all((ROOT / name).exists() for name in re.findall(r"scripts/[\w/.]+\w", script.CHECKLIST + script.FIRST)))

    def test_it_never_uploads(self):
        text = (ROOT / "scripts/release").read_text() + (ROOT / "scripts/lib/release_checks.py").read_text()
        self.assertEqual(re.findall(r'"upload"|"push"|"tag"', text), [])


class NamesTest(unittest.TestCase):
    def owned(self, text, *more):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            return call(sys.executable, ROOT / "scripts/names_owned", *more, file.name)

    def test_names_that_are_free(self):
        code, said = self.owned("# an index\nnumpy\nnumpy import numpy\nnumpy command f2py\npytest-cov pytest11 pytest_cov\ngpumemshim-helper command gpumemshim-helper\n")
        self.assertEqual((code, said), (0, "names_owned: ok, 3 names against 3 packages\n"))

    def test_names_that_are_taken(self):
        code, said = self.owned("Other.Tool command gpumemshim\nother-tool import gpumemshim  # too\nthird pytest11 gpumemshim\nthird command GPUMEMSHIM\nGpuMemShim\n")
        self.assertEqual(code, 1)
        self.assertEqual(said.splitlines()[:3], ["Other.Tool has the command gpumemshim", "other-tool has the import gpumemshim", "third has the pytest11 gpumemshim"])
        self.assertEqual(said.splitlines()[3:], ["names_owned: 3 taken"] if release.PUBLISHED else ["GpuMemShim has the name gpumemshim", "names_owned: 4 taken"])

    def test_a_list_that_says_nothing_is_no_yes(self):
        for text in ("", "# nothing\n\n", "a b\n"):
            code, said = self.owned(text)
            self.assertEqual(code, 2, said)
        self.assertEqual(call(sys.executable, ROOT / "scripts/names_owned", "/nowhere")[0], 2)

    def test_the_names_of_a_wheel(self):
        import zipfile

        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for name in ("ours/__init__.py", "single.py", "ours-1.data/scripts/tool", "ours-1.dist-info/METADATA"):
                archive.writestr(name, "")
            archive.writestr("ours-1.dist-info/entry_points.txt", "[console_scripts]\nsecond = ours:main\n[pytest11]\nPlug = ours.p\n")
        with tempfile.NamedTemporaryFile(suffix=".whl") as wheel:
            wheel.write(data.getvalue())
            wheel.flush()
            code, said = self.owned("a command tool\nb command second\nc import single\nd import ours\ne pytest11 Plug\nf pytest11 plug\n", "--wheel", wheel.name)
        self.assertEqual((code, said.splitlines()[-1]), (1, "names_owned: 5 taken"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])

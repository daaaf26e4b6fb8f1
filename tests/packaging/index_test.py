# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The files of a release as an index has them: what its tools say of them, and pip, uvx and `uv tool` that install from one on this machine.

    python tests/packaging/index_test.py
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import local_index
import packages

sys.path.insert(0, str(packages.ROOT / "scripts/lib"))
sys.dont_write_bytecode = True
import release  # noqa: E402
import release_checks  # noqa: E402

KINDS = ("wheel", "sdist", "sbom")
MADE, TOOLS, PYTHON = {}, None, None
LARGEST = 35_000_000


def below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


class FilesTest(unittest.TestCase):
    def test_what_the_tools_of_an_index_say(self):
        self.assertEqual(release_checks.files(TOOLS, MADE), [])

    def test_they_say_it_where_something_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = {kind: pathlib.Path(shutil.copy(path, folder)) for kind, path in MADE.items()}
            broken["sbom"].write_text(broken["sbom"].read_text().replace('"library"', '"libary"', 1))
            broken["wheel"].unlink()
            with zipfile.ZipFile(MADE["wheel"]) as source, zipfile.ZipFile(broken["wheel"], "w") as target:
                for name in source.namelist():
                    if not name.startswith("gpumemshim/"):
                        target.writestr(name, source.read(name) + b"tests/__init__.py,,\n" * name.endswith("/RECORD"))
                target.writestr("tests/__init__.py", "")
            said = "\n".join(release_checks.files(TOOLS, broken))
            self.assertIn("CycloneDX's schema:", said)
            self.assertIn("check-wheel-contents:", said)

    def test_size(self):
        self.assertLess(MADE["wheel"].stat().st_size, LARGEST)
        print(f"wheel: {MADE['wheel'].stat().st_size / 1e6:.1f} MB, source distribution: {MADE['sdist'].stat().st_size / 1e6:.1f} MB")

    def test_the_bill_in_the_wheel_is_the_one_beside_it(self):
        with zipfile.ZipFile(MADE["wheel"]) as archive:
            inside = archive.read(f"gpumemshim-{release.version()}.dist-info/sboms/gpumemshim.cdx.json").decode()
        self.assertEqual(inside, MADE["sbom"].read_text())
        self.assertEqual([part["name"] for part in json.loads(inside)["components"] if not part["version"]], [], "without a version")


class IndexTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpumemshim-index-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name).resolve()
        self.index = self.enterContext(local_index.LocalIndex([MADE["wheel"], MADE["sdist"]]))
        tools, commands = self.folder / "tools", self.folder / "commands"
        self.environment = {"PATH": f"{TOOLS}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8", "UV_CACHE_DIR": str(self.folder / "cache"), "UV_TOOL_DIR": str(tools),
                            "UV_TOOL_BIN_DIR": str(commands), "UV_PYTHON": PYTHON, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1", "UV_DEFAULT_INDEX": self.index.url,
                            "PIP_INDEX_URL": self.index.url, "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run_it(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, timeout=300)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def test_uvx(self):
        self.assertEqual(self.run_it("uvx", "gpumemshim", "--version"), f"gpumemshim {release.version()}\n")
        self.assertEqual([path for path in self.index.asked if path.startswith("/files/") and not path.endswith(".metadata")], [f"/files/{MADE['wheel'].name}"], "the wheel, once")
        self.assertEqual(self.run_it("uvx", "gpumemshim@latest", "report", "--help")[:5], self.run_it("uvx", "gpumemshim", "report", "--help")[:5])

    def test_uv_tool_and_nothing_is_left(self):
        """As pipx does it: an environment of its own, and a link to the command."""
        self.run_it("uv", "tool", "install", "gpumemshim")
        command = self.folder / "commands/gpumemshim"
        self.assertTrue(command.is_symlink())
        self.assertEqual(self.run_it(command, "--version"), f"gpumemshim {release.version()}\n")
        self.assertIn("libgpumemshim.so", self.run_it(command, "doctor"))
        self.run_it("uv", "tool", "uninstall", "gpumemshim")
        self.assertEqual([name for name in below(self.folder) if "gpumemshim" in name and not name.startswith("cache/")], [])

    def test_uv_links_of_each_kind(self):
        for mode in ("copy", "hardlink", "symlink"):
            with self.subTest(mode):
                self.run_it("uv", "venv", "--quiet", "--clear", f"env-{mode}")
                self.run_it("uv", "pip", "install", "--quiet", "--link-mode", mode, "--python", self.folder / f"env-{mode}/bin/python", "gpumemshim")
                for words in (("bin/gpumemshim",), ("bin/python", "-m", "gpumemshim")):
                    self.assertEqual(self.run_it(self.folder / f"env-{mode}" / words[0], *words[1:], "--version"), f"gpumemshim {release.version()}\n")

    def test_pip_with_hashes(self):
        self.run_it(PYTHON, "-m", "venv", "env")
        (self.folder / "wanted.txt").write_text(f"gpumemshim=={release.version()} --hash=sha256:{release_checks.sums([MADE['wheel']]).split()[0]}\n")
        self.run_it("env/bin/pip", "install", "--quiet", "--require-hashes", "-r", "wanted.txt")
        self.assertEqual(self.run_it("env/bin/gpumemshim", "--version"), f"gpumemshim {release.version()}\n")


if __name__ == "__main__":
    arguments, rest = packages.arguments_of()
    PYTHON = arguments.python
    if not pathlib.Path(PYTHON).exists():
        packages.skip(f"{PYTHON} is missing. Run scripts/bootstrap, or pass --python")
    try:
        TOOLS = release_checks.environment(packages.ROOT / "build/package_tools")
    except RuntimeError as error:
        packages.skip(f"the tools of scripts/requirements/packaging.txt could not be fetched: {str(error).splitlines()[-1]}")
    MADE.update(zip(KINDS, packages.made(*KINDS)))
    packages.run_tests(rest)

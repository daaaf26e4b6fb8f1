# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Each way in which a wheel is installed, with a wheel whose programs are stand-ins that say where they lie: an environment, --user, --prefix, --target, a zip file.

    python tests/packaging/layouts_test.py --build build/release

packaging_wheel installs the real one.
"""

import argparse
import email
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "scripts/lib"))
sys.dont_write_bytecode = True
import licences  # noqa: E402
import release  # noqa: E402
import wheel  # noqa: E402

BUILD = PYTHON = None
PROGRAM = '#!/bin/sh\necho "$0|$*"\n'
FIND = "from gpumemshim import _attach, _program; print(_program.find()); print(next(_attach.candidates()))"
STAMP = (1577836800, 1577836800)


def make_tree(folder):
    files = {"bin/gpumemshim": PROGRAM, "lib/gpumemshim/libgpumemshim.so": "recorder", "lib/gpumemshim/simcuda/libcuda.so.1": "simulated", "share/gpumemshim/simcuda/run": PROGRAM,
             "share/gpumemshim/simcuda/tools/elf.py": "", "share/man/man1/gpumemshim.1": ".TH", "share/fish/vendor_completions.d/gpumemshim.fish": "", "include/gpumemshim.h": "",
             "share/doc/gpumemshim/LICENSE": "ours", "share/doc/gpumemshim/licences/libabsl-dev.txt": "theirs", "share/doc/gpumemshim/CHANGELOG.md": ""}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text == PROGRAM else 0o644)
    return folder


def make_wheel(folder):
    folder.mkdir()
    return wheel.make(make_tree(folder / "tree"), wheel.Facts(ROOT / "python", "linux_x86_64", BUILD / "bin/gpumemshim_launcher", "{}"), folder)


def below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


class LayoutsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="gpumemshim-layouts-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name).resolve()
        cls.wheel = make_wheel(cls.scratch / "made")

    def setUp(self):
        self.folder = self.scratch / self.id().rpartition(".")[2]
        self.folder.mkdir()
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1",
                            "PYTHONUSERBASE": str(self.folder / "user base")}

    def run_it(self, *command, code=0, **variables):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=self.folder, stdin=subprocess.DEVNULL, env={**self.environment, **variables})
        self.assertEqual(done.returncode, code, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout if code == 0 else done.stderr

    def pip(self, python, *words):
        return self.run_it(PYTHON, "-m", "pip", "--python", python, *words)

    def install(self, python, *words):
        """Compiled only where it is removed again: that takes half of the time."""
        self.pip(python, "install", "--compile" if not words else "--no-compile", "--quiet", "--no-index", "--no-deps", *words, self.wheel)

    def new_environment(self, name="env"):
        self.run_it(PYTHON, "-m", "venv", "--without-pip", name)
        return self.folder / name

    def check_command(self, command, tree):
        self.assertEqual(self.run_it(command, "report", "a b"), f"{tree / 'bin/gpumemshim'}|report a b\n")

    def check_package(self, tree, python, **variables):
        self.assertEqual(self.run_it(python, "-c", FIND, **variables).splitlines(), [str(tree / "bin/gpumemshim"), str(tree / "lib/gpumemshim/libgpumemshim.so")])
        self.assertEqual(self.run_it(python, "-m", "gpumemshim", "leaks", **variables), f"{tree / 'bin/gpumemshim'}|leaks\n")

    def test_an_environment_and_nothing_is_left(self):
        place = self.new_environment()
        before = below(place)
        self.install(place / "bin/python")
        tree = next(place.glob("lib/python3*/site-packages/gpumemshim"))
        self.check_command(place / "bin/gpumemshim", tree)
        self.check_package(tree, place / "bin/python")
        new = {name for name in below(place) - before if f"{tree.relative_to(place).parent.as_posix()}/gpumemshim" not in name}
        self.assertEqual(new, {"bin/gpumemshim"}, "outside of the package's own folder")
        self.check_links(place, tree)
        self.pip(place / "bin/python", "uninstall", "--quiet", "--yes", "gpumemshim")
        self.assertEqual(below(place), before)

    def check_links(self, place, tree):
        """To the command, as pipx makes it; and as uv may make it: the environment has a link to a cache."""
        (self.folder / "apps").mkdir()
        (self.folder / "apps/gpumemshim").symlink_to(place / "bin/gpumemshim")
        self.check_command(self.folder / "apps/gpumemshim", tree)
        (self.folder / "cache").mkdir()
        (place / "bin/gpumemshim").rename(self.folder / "cache/gpumemshim")
        (place / "bin/gpumemshim").symlink_to("../../cache/gpumemshim")
        for command in (place / "bin/gpumemshim", self.folder / "apps/gpumemshim", "env/bin/gpumemshim", "apps/gpumemshim"):
            self.check_command(command, tree)
        self.environment["PATH"] += f":{self.folder / 'apps'}"
        self.assertEqual(self.run_it("sh", "-c", "gpumemshim x"), f"{tree / 'bin/gpumemshim'}|x\n")
        (self.folder / "cache/gpumemshim").replace(place / "bin/gpumemshim")

    def test_user(self):
        base = self.run_it(PYTHON, "-c", "import sys; print(sys._base_executable)").strip()
        self.install(base, "--user")
        tree = next((self.folder / "user base").glob("lib/python3*/site-packages/gpumemshim"))
        self.check_command(self.folder / "user base/bin/gpumemshim", tree)
        self.check_package(tree, base)
        self.pip(base, "uninstall", "--quiet", "--yes", "gpumemshim")
        self.assertEqual([name for name in below(self.folder / "user base") if "gpumemshim" in name], [])

    def test_target(self):
        place = self.folder / "target"
        self.install(PYTHON, "--target", place)
        self.check_command(place / "bin/gpumemshim", place / "gpumemshim")
        self.check_package(place / "gpumemshim", PYTHON, PYTHONPATH=str(place))

    def test_the_command_takes_its_own_version(self):
        """Of two Pythons below one prefix, as in ~/.local."""
        self.install(PYTHON, "--prefix", self.folder / "prefix")
        tree = next((self.folder / "prefix").glob("lib/python3*/site-packages/gpumemshim"))
        for name in ("python3.1", "python3.99"):
            other = tree.parents[2] / name / "site-packages"
            shutil.copytree(tree, other / "gpumemshim")
            (other / "gpumemshim-9.9.9.dist-info").mkdir()
        self.check_command(self.folder / "prefix/bin/gpumemshim", tree)
        shutil.rmtree(tree)
        self.assertIn("/site-packages/gpumemshim/bin/gpumemshim|x", self.run_it(self.folder / "prefix/bin/gpumemshim", "x"), "another is better than none")
        shutil.rmtree(self.folder / "prefix/lib")
        said = self.run_it(self.folder / "prefix/bin/gpumemshim", code=127)
        self.assertIn(f"neither in {self.folder}/prefix/lib/python3.*/site-packages nor in {self.folder}/prefix. Run `python3 -m gpumemshim`", said)

    def make_zip(self, begin="", keep_modes=False):
        """A zipapp of what the wheel has, as `python -m zipapp` makes one: who may start a file is lost."""
        path = self.folder / "app.pyz"
        with zipfile.ZipFile(self.wheel) as source, zipfile.ZipFile(path, "w") as target:
            for entry in source.infolist():
                target.writestr(begin + entry.filename, source.read(entry))
            target.writestr("__main__.py", f"import sys; sys.path.insert(0, {str(path / begin)!r})\n{FIND}")
        return path

    def test_a_zip_file(self):
        for begin in ("", "site-packages/"):
            with self.subTest(begin):
                app, cache = self.make_zip(begin), self.folder / "cache"
                program, recorder = map(pathlib.Path, self.run_it(PYTHON, app, XDG_CACHE_HOME=str(cache)).splitlines())
                self.assertEqual(self.run_it(program, "x"), f"{program}|x\n")
                self.assertEqual([program.parents[1], recorder.read_text()], [recorder.parents[2], "recorder"])
                self.assertTrue(os.access(program.parents[1] / "share/gpumemshim/simcuda/run", os.X_OK))
                self.assertEqual((program.parents[1].parent, program.parents[1].stat().st_mode & 0o777), (cache / "gpumemshim/programs", 0o700))
                made = program.stat()
                self.run_it(PYTHON, app, XDG_CACHE_HOME=str(cache))
                self.assertEqual((program.stat().st_ino, len(list(program.parents[2].iterdir()))), (made.st_ino, 1), "unpacked a second time")

    def test_a_zip_file_whose_cache_is_not_to_be_trusted(self):
        app, cache = self.make_zip(), self.folder / "cache"
        (cache / "gpumemshim/programs").mkdir(parents=True)
        (cache / "gpumemshim/programs").chmod(0o777)
        self.assertIn("can be written by others. Name a folder that you can write to by XDG_CACHE_HOME", self.run_it(PYTHON, app, code=1, XDG_CACHE_HOME=str(cache)))
        self.assertEqual(list((cache / "gpumemshim/programs").iterdir()), [])
        (self.folder / "file").touch()
        said = self.run_it(PYTHON, app, code=1, XDG_CACHE_HOME=str(self.folder / "file"))
        self.assertIn(f"imported from the zip file {app}, and its programs could not be unpacked into {self.folder}/file/gpumemshim/programs", said)

    def test_a_zip_file_that_is_damaged_or_means_harm(self):
        app = self.make_zip()
        with zipfile.ZipFile(app, "a") as target:
            target.writestr("gpumemshim/share/../../../escaped", "")
        self.assertIn("escaped is no path inside a folder", self.run_it(PYTHON, app, code=1, XDG_CACHE_HOME=str(self.folder / "cache")))
        self.assertFalse(any("escaped" in name for name in below(self.folder)))
        self.assertEqual(list((self.folder / "cache/gpumemshim/programs").iterdir()), [], "half a tree was left")
        bytes_of = bytearray(self.make_zip().read_bytes())
        bytes_of[bytes_of.index(b"libcuda.so.1simulated") + 12] ^= 1  # entries are stored as they are
        app.write_bytes(bytes_of)
        self.assertIn("Bad CRC-32", self.run_it(PYTHON, app, code=1, XDG_CACHE_HOME=str(self.folder / "cache")))

    def test_the_package_alone_in_a_zip_file_says_that_there_is_no_program(self):
        app = self.folder / "app.pyz"
        with zipfile.ZipFile(self.wheel) as source, zipfile.ZipFile(app, "w") as target:
            for name in source.namelist():
                if name.startswith("gpumemshim/") and name.endswith(".py"):
                    target.writestr(name, source.read(name))
            target.writestr("__main__.py", "from gpumemshim import _program; _program.find()")
        self.assertIn("gpumemshim is not on PATH", self.run_it(PYTHON, app, code=1, XDG_CACHE_HOME=str(self.folder / "cache")))
        self.assertFalse((self.folder / "cache").exists())

    def test_the_same_tree_gives_the_same_bytes(self):
        again = make_wheel(self.folder / "at another place")
        for path in (again.parent / "tree").rglob("*"):
            os.utime(path, STAMP)
        again = wheel.make(again.parent / "tree", wheel.Facts(ROOT / "python", "linux_x86_64", BUILD / "bin/gpumemshim_launcher", "{}"), self.folder)
        self.assertEqual(again.read_bytes(), self.wheel.read_bytes())


class MetadataTest(unittest.TestCase):
    """What an index shows and installers read, as PyPI checks it (packaging.metadata)."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-metadata-") as scratch:
            with zipfile.ZipFile(make_wheel(pathlib.Path(scratch) / "made")) as archive:
                info = f"gpumemshim-{release.version()}.dist-info"
                cls.names, cls.text = [name.removeprefix(f"{info}/") for name in archive.namelist()], archive.read(f"{info}/METADATA").decode()
        cls.fields = email.message_from_string(cls.text)

    def test_it_is_valid(self):
        try:
            from packaging.metadata import Metadata
        except ImportError:
            self.skipTest("the package packaging is not here (scripts/bootstrap --all)")
        found = Metadata.from_email(self.text, validate=True)
        self.assertEqual((str(found.version), found.license_expression), (release.version(), licences.expression()))

    def test_licence_files_are_where_it_says(self):
        listed = self.fields.get_all("License-File")
        self.assertEqual({f"licenses/{name}" for name in listed}, {name for name in self.names if name.startswith("licenses/")})
        self.assertIn("LICENSE", listed)
        self.assertIn("sboms/gpumemshim.cdx.json", self.names)

    def test_the_text_has_no_link_to_what_is_not_there(self):
        self.assertNotIn("](../", self.fields.get_payload())

    def test_every_package_that_is_imported_is_an_extra(self):
        """`pip install gpumemshim[...]` for each that is not Python's, the user's own or our own."""
        extras = set(self.fields.get_all("Provides-Extra"))
        ours = {"gpumemshim", "utils", "tools", "memoryCheck", "detailed_memory_profiler"}  # the last: other tools' names, in compat
        trained_with = {"torch", "transformers", "lightning", "pytorch_lightning", "peft"}  # in use before anybody looks at their memory
        named = {"IPython": "notebook", "chdb": "clickhouse", "pandas": "tables", "pyarrow": "tables", "pyspark": "spark"}
        done = subprocess.run(["grep", "-rhoE", r"^\s*(import|from) [A-Za-z_]\w*", "--include=*.py", str(ROOT / "python/gpumemshim")], capture_output=True, text=True, check=True)
        imported = {line.split()[1] for line in done.stdout.splitlines()} - set(sys.stdlib_module_names) - ours - trained_with
        self.assertGreater(len(imported), 5)
        self.assertEqual({name for name in imported if named.get(name, name) not in extras}, set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    arguments, rest = parser.parse_known_args()
    BUILD, PYTHON = arguments.build.resolve(), arguments.python
    unittest.main(argv=[sys.argv[0], *rest])

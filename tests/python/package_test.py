# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The package python/gpumemshim: does nothing without the recorder, says the right things to one that writes them down, knows the table of
include/gpumemshim.h, installs, and runs on every Python from 3.9 on that is found here.

    python tests/python/package_test.py [-v]
"""

import asyncio
import importlib
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.dont_write_bytecode = True

import gpumemshim  # noqa: E402
from gpumemshim import _annotations, _library, _tables, _watch  # noqa: E402


class Recorder:
    """In the library's place: writes down what it receives."""

    def __init__(self):
        self.reported = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self.reported.append((name, *arguments))

    def recording(self):
        return 1


class Tensor:
    """What the package asks of a tensor."""

    is_cuda, shape = True, (2, 3)

    def data_ptr(self):
        return 4096

    def numel(self):
        return 6

    def element_size(self):
        return 4

    def __str__(self):
        raise AssertionError("reading it would make the program wait for the GPU")


def use_all():
    """Every call once, as a program makes them."""
    with gpumemshim.stage("outer"):
        gpumemshim.step()
        gpumemshim.step(7)
        gpumemshim.step()
        gpumemshim.mark("plain")
        gpumemshim.mark("epoch done", loss=0.25, where=Tensor(), epoch=3)
        gpumemshim.snapshot("nul\0 and \u00fc")
    tensor = Tensor()
    assert gpumemshim.tag(tensor, "cache") is tensor
    gpumemshim.pause()
    gpumemshim.resume()
    return gpumemshim.stage("decorated")(lambda x: x + 1)(1)


class WithoutTheRecorder(unittest.TestCase):
    def setUp(self):
        self.assertIsNone(_library.find(), "this test runs without the recorder")

    def test_nothing_happens(self):
        self.assertEqual(use_all(), 2)
        self.assertFalse(gpumemshim.recording())
        self.assertEqual(gpumemshim.watch(lambda: 5, tell=self.fail)(), 5)
        self.assertEqual((gpumemshim.tensors(), gpumemshim.gradients()), ([], []))
        self.assertNotIn("torch", sys.modules)
        watch = gpumemshim.on_forecast(self.fail)
        watch.stop()
        self.assertEqual(watch.failures, [])
        with self.assertRaises(ValueError):
            gpumemshim.on_forecast(self.fail, risk="low")

    def test_it_is_looked_up_once(self):
        before, _library.look_up = _library.look_up, lambda: self.fail("looked up again")
        self.addCleanup(setattr, _library, "look_up", before)
        gpumemshim.mark("x")


class WithARecorder(unittest.TestCase):
    def setUp(self):
        self.recorder = Recorder()
        self.addCleanup(setattr, _library, "_found", _library._found)
        _library._found = (self.recorder,)
        _annotations._steps = iter(range(1, 1000))

    def test_what_is_said(self):
        self.assertEqual(use_all(), 2)
        self.assertEqual(
            self.recorder.reported,
            [
                ("stage_push", b"outer"),
                ("step", 1),
                ("step", 7),
                ("step", 8),
                ("mark", b"plain"),
                ("mark", b"epoch done (loss=0.25, where=Tensor[2, 3], epoch=3)"),
                ("snapshot", "nul\ufffd and \u00fc".encode()),
                ("stage_pop",),
                ("name", 4096, 24, b"cache"),
                ("pause",),
                ("resume",),
                ("stage_push", b"decorated"),
                ("stage_pop",),
            ],
        )
        self.assertTrue(gpumemshim.recording())

    def test_a_stage_ends_with_an_exception(self):
        @gpumemshim.stage("fails")
        def fails():
            """Kept."""
            raise KeyError("mine")

        self.assertRaises(KeyError, fails)
        self.assertEqual((self.recorder.reported, fails.__doc__), ([("stage_push", b"fails"), ("stage_pop",)], "Kept."))

    def test_a_decorated_coroutine_runs_in_its_stage(self):
        @gpumemshim.stage("waits")
        async def waits():
            await asyncio.sleep(0)
            gpumemshim.mark("inside")
            return 4

        self.assertEqual(asyncio.run(waits()), 4)
        self.assertEqual([name for name, *_ in self.recorder.reported], ["stage_push", "mark", "stage_pop"])

    def test_a_generator_cannot_be_decorated(self):
        def generates():
            yield

        self.assertRaisesRegex(TypeError, "with gpumemshim.stage", gpumemshim.stage("x"), generates)

    def test_what_has_no_place_is_not_named(self):
        class Fake(Tensor):
            def data_ptr(self):
                raise RuntimeError("no data")

        class Host(Tensor):
            is_cuda = False

        class Other:
            __cuda_array_interface__ = {"data": (512, False), "shape": (4, 2), "typestr": "<f8"}

        for thing in (Fake(), Host(), None, object()):
            self.assertIs(gpumemshim.tag(thing, "x"), thing)
        gpumemshim.tag(Other(), "cupy")
        self.assertEqual(self.recorder.reported, [("name", 512, 64, b"cupy")])

    def test_watch_tells_what_pytorch_counted(self):
        counted = iter([(100, 0), (160, 20)])
        self.addCleanup(setattr, _watch, "counters", _watch.counters)
        _watch.counters = lambda: next(counted)
        reported = []

        @gpumemshim.watch(name="load", tell=reported.append)
        def load(value):
            return value

        self.assertEqual(load(3), 3)
        self.assertEqual(reported, [gpumemshim.Change("load", 60, 20)])
        self.assertEqual((reported[0].grown_bytes, str(reported[0])), (40, "load: +40 B of GPU memory (60 allocated, 20 freed)"))
        self.assertEqual(self.recorder.reported, [("stage_push", b"load"), ("stage_pop",), ("mark", b"watch load (allocated=60, freed=20, grown=40)")])

    def test_watch_tells_of_a_call_that_failed(self):
        reported = []
        self.assertRaises(ZeroDivisionError, gpumemshim.watch(lambda: 1 // 0, name="divide", tell=reported.append))
        self.assertEqual((reported[0].error, reported[0].grown_bytes), ("ZeroDivisionError", 0))

    def test_counters_are_pytorchs(self):
        stats = {"allocated_bytes.all.allocated": 70, "allocated_bytes.all.freed": 30}
        cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2, memory_stats=lambda device: stats)
        self.addCleanup(sys.modules.pop, "torch.cuda")
        sys.modules["torch.cuda"] = cuda
        self.assertEqual(_watch.counters(), (140, 60))
        cuda.is_initialized = lambda: False
        self.assertEqual(_watch.counters(), (0, 0))


class Table(unittest.TestCase):
    def test_it_is_the_headers(self):
        header = (ROOT / "include" / "gpumemshim.h").read_text()
        struct = header[header.index("struct gpumemshim_api {") :].partition("};")[0]
        self.assertEqual(re.findall(r"\(\*(\w+)\)", struct), [name for name, _, _, _ in _library.FUNCTIONS])

    def test_an_older_library_has_fewer_functions(self):
        reported = []
        mark = _library.ctypes.PYFUNCTYPE(None, _library.ctypes.c_char_p)(reported.append)
        table = _library.Table(version=1, size=_library.Table.snapshot.offset)
        table.mark = _library.ctypes.cast(mark, _library.ctypes.c_void_p).value
        library = _library.Library(table)
        library.snapshot(b"x")  # a mark at least
        library.name(1, 2, b"y")
        self.assertEqual((reported, library.recording()), ([b"x"], 0))


class ShownTable(unittest.TestCase):
    def test_sizes_and_times_have_units(self):
        table = _tables.Table([{"step": 1, "peak_bytes": 3 << 20, "start_ns": 1_665_000_000, "took_ns": 0}])
        self.assertEqual(re.split(r" {2,}", str(table).splitlines()[1].strip()), ["1", "3 MiB", "1.665 s", "0 s"])
        self.assertIn(">1.665 s</td>", table._repr_html_())
        self.assertEqual(table[0]["start_ns"], 1_665_000_000)

    def test_times_are_as_the_commands_print_them(self):
        for nanoseconds, text in ((0, "0 s"), (999, "999 ns"), (1500, "2 us"), (26_500_000, "26.5 ms"), (271_000_000, "271 ms"), (99_999_000_000, "99.999 s"), (3_599e9, "59 min 59 s"), (7_260e9, "2 h 01 min")):
            self.assertEqual(_tables.duration(nanoseconds), text)


class Installed(unittest.TestCase):
    def test_pip_installs_it(self):
        python = next((path for path in (str(ROOT / ".venv" / "bin" / "python"), sys.executable) if self.has_setuptools(path)), None)
        if python is None:
            self.skipTest("no Python with pip and setuptools 61 or newer here (scripts/bootstrap installs one)")
        with tempfile.TemporaryDirectory() as folder:
            # A copy: a build leaves folders beside its source.
            source = pathlib.Path(folder) / "source"
            subprocess.run(["cp", "-r", str(ROOT / "python"), str(source)], check=True)
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
            subprocess.run([*command, "--target", f"{folder}/target", str(source)], check=True, capture_output=True, timeout=240)
            ask = "import gpumemshim; gpumemshim.mark('x'); print(gpumemshim.__file__, gpumemshim.__version__)"
            done = subprocess.run([python, "-c", ask], env={**os.environ, "PYTHONPATH": f"{folder}/target"}, cwd=folder, capture_output=True, text=True, check=True)
            file, version = done.stdout.split()
            self.assertTrue(file.startswith(f"{folder}/target/"), file)
            self.assertTrue(pathlib.Path(f"{folder}/target/gpumemshim-{version}.dist-info").is_dir(), "its version is the one place of all")

    def has_setuptools(self, python):
        ask = "import setuptools, pip, sys; sys.exit(int(setuptools.__version__.partition('.')[0]) < 61)"
        return os.access(python, os.X_OK) and subprocess.run([python, "-c", ask], capture_output=True).returncode == 0

    def test_every_python_here(self):
        import interpreters

        found = [python for python in interpreters.find() if python.minor >= 9]
        self.assertTrue(found)
        for python in found:
            with self.subTest(python=python.path):
                command = [python.path, __file__, "WithoutTheRecorder", "WithARecorder", "Table", "Modules"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)


class Modules(unittest.TestCase):
    """Each module can be imported, on every Python here; those of foreign packages are tested in tests/e2e/integrations_test.py."""

    FOREIGN = {"gpumemshim.pytest_plugin", "gpumemshim.integrations.transformers", "gpumemshim.integrations.lightning"}

    def test_they_import_the_standard_library_alone(self):
        names = {module.name for module in pkgutil.walk_packages(gpumemshim.__path__, "gpumemshim.")}
        self.assertGreater(len(names), 25)
        self.assertLessEqual(self.FOREIGN, names)
        for name in sorted(names - self.FOREIGN - {"gpumemshim.__main__"}):
            with self.subTest(module=name):
                importlib.import_module(name)


if __name__ == "__main__":
    unittest.main()

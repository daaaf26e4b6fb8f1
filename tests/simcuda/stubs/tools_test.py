#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""simcuda/run, scan_wheel.py and gen_stubs.py, without PyTorch: wheels are faked with the C compiler.

Environment: SIMCUDA_LIB (the libraries under test).
"""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SIMCUDA = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "simcuda")
RUN = os.path.join(SIMCUDA, "run")
LIB = os.environ["SIMCUDA_LIB"]
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SIMCUDA, "tools"), os.path.join(SIMCUDA, "stubs")]
import gen_stubs  # noqa: E402
import scan_wheel  # noqa: E402


def compile_library(path, source, *options):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-x", "none", "-o", path,
                    *options], input=source.encode(), check=True)


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="simcuda tools ")  # a space, to be sure
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run_simcuda(self, *command, **environment):
        env = dict(os.environ, XDG_CACHE_HOME=self.path("cache"), PYTHONPATH=self.path("site"))
        env.pop("LD_PRELOAD", None)
        env.update(environment)
        return subprocess.run([RUN, *command], env=env, capture_output=True, text=True, timeout=60, check=False)


class GenStubsTest(Scratch):
    def table(self, text):
        path = self.path("table.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def build(self, table):
        source, script, library = self.path("foo.c"), self.path("foo.map"), self.path("libfoo.so")
        gen_stubs.main(["gen_stubs.py", table, source, script])
        folders = [os.path.join(SIMCUDA, "stubs", "src"), os.path.dirname(SIMCUDA)]
        subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", *(f"-I{folder}" for folder in folders), source,
                        os.path.join(SIMCUDA, "stubs", "src", "stub.c"), "-o", library], check=True)
        return library

    def test_braces_multiply(self):
        self.assertEqual(gen_stubs.expand("a{x,y}b{1,2}"), ["axb1", "axb2", "ayb1", "ayb2"])
        self.assertEqual(gen_stubs.expand("cuFoo{,Bar}"), ["cuFoo", "cuFooBar"])

    def test_line_that_is_not_understood_names_its_place(self):
        for line in ("cuFoo (bogus)", "cuFoo (int*)", "cuFoo -> nothing", "cuFoo ("):
            with self.assertRaises(SystemExit) as stopped:
                gen_stubs.parse(self.table(f"soname libfoo.so.1\n{line}\n"))
            self.assertIn(":2:", str(stopped.exception))

    def test_function_named_twice_is_refused(self):
        with self.assertRaises(SystemExit):
            gen_stubs.parse(self.table("soname libfoo.so.1\ncu{Foo,Bar}\ncuBar\n"))

    def test_stub_writes_its_outputs_and_nothing_else(self):
        table = self.table("soname libfoo.so.1\nstatus 7\nsetting room FOO_ROOM\n"
                           "fooCreate (new)\nfooSize (float int*=5 long*=room)\nfooName -> char* \"foo\"\nfooPlain\n")
        library = self.build(table)
        check = ("import ctypes, sys; f = ctypes.CDLL(sys.argv[1]); h = ctypes.c_void_p(); i = ctypes.c_int(1)\n"
                 "n = ctypes.c_long(1); f.fooName.restype = ctypes.c_char_p\n"
                 "assert f.fooCreate(ctypes.byref(h)) == 7 and h.value\n"
                 "assert f.fooSize(ctypes.c_float(2), ctypes.byref(i), ctypes.byref(n)) == 7\n"
                 "assert (i.value, n.value) == (5, 3072), (i, n)\n"
                 "assert f.fooSize(ctypes.c_float(2), None, None) == 7 and f.fooPlain() == 7\n"
                 "assert f.fooName() == b'foo'\n")
        done = subprocess.run([sys.executable, "-c", check, library], env=dict(os.environ, FOO_ROOM="3K"), check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_sizes_are_those_of_a_row_a_setting_or_a_bound(self):
        library = self.build(self.table("soname libfoo.so.1\nlibrary cuFoo\nsetting room FOO_ROOM\nsetting elements FOO_ELEMENTS\n"
                                        "fooSize (ptr int long long*=room) <= $1 * ($2 + 1) * bytes($2)\n"
                                        "cusolverDnZfoo (int int*=elements) <= $0\n"
                                        "fooOpen (int long*=room)\n"))
        ask = ("import ctypes, sys; f = ctypes.CDLL(sys.argv[1]); n = [ctypes.c_long(1) for _ in range(2)]; i = ctypes.c_int(1)\n"
               "f.fooSize(None, 6, ctypes.c_long(1), ctypes.byref(n[0])); f.cusolverDnZfoo(5, ctypes.byref(i)); f.fooOpen(3, ctypes.byref(n[1]))\n"
               "print(n[0].value, i.value, n[1].value)\n")
        rows = self.path("rows.tsv")
        with open(rows, "w", encoding="utf-8") as file:
            file.write("cuFoo\tfooSize\t6 1\t777\tA GPU\t9.0\t13.0\tmeasured\ncuFoo\tcusolverDnZfoo\t5\t33\tA GPU\t9.0\t13.0\tmeasured\n")
        table = {"SIMCUDA_WORKSPACE_TABLE": rows, "SIMCUDA_NAME": "A GPU"}
        for environment, expected in (({}, "0 0 0"), ({"SIMCUDA_WORKSPACES": "bound"}, "96 5 0"), (table, "777 3 0"),
                                      ({**table, "SIMCUDA_WORKSPACES": "none"}, "0 0 0"),
                                      ({**table, "FOO_ROOM": "1K", "FOO_ELEMENTS": "9"}, "1024 9 1024")):
            done = subprocess.run([sys.executable, "-c", ask, library], env={**os.environ, "LD_LIBRARY_PATH": LIB, **environment}, check=False,
                                  capture_output=True, text=True)
            self.assertEqual((done.stdout.strip(), done.stderr), (expected, ""), environment)


class RunTest(Scratch):
    def test_exit_code_and_output_are_the_commands(self):
        done = self.run_simcuda("sh", "-c", "echo said; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "said\n"))

    def test_signal_is_the_commands(self):
        self.assertEqual(self.run_simcuda("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)

    def test_unknown_command_is_127_and_no_command_2(self):
        self.assertEqual(self.run_simcuda("no-such-command").returncode, 127)
        self.assertEqual(self.run_simcuda().returncode, 2)

    def test_library_folder_without_libraries_says_what_to_do(self):
        done = self.run_simcuda("true", SIMCUDA_LIB=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cmake --preset release", done.stderr)

    def test_keeps_what_was_there_and_goes_behind_it(self):
        done = self.run_simcuda("sh", "-c", "echo $LD_PRELOAD; echo $LD_LIBRARY_PATH", LD_PRELOAD="libm.so.6",
                                LD_LIBRARY_PATH="/opt/mine")
        preload, path = done.stdout.splitlines()
        self.assertEqual(preload.split(":")[0], "libm.so.6")
        self.assertIn("libsimcuda_zero.so", preload.split(":")[1])
        self.assertEqual(path, f"{LIB}:/opt/mine")

    def test_nesting_changes_nothing(self):
        once = self.run_simcuda("sh", "-c", "echo $LD_PRELOAD $LD_LIBRARY_PATH").stdout
        self.assertEqual(self.run_simcuda(RUN, "sh", "-c", "echo $LD_PRELOAD $LD_LIBRARY_PATH").stdout, once)

    def test_whole_preload_names_every_library_and_a_shell_still_works(self):
        done = self.run_simcuda("--preload", "always", "cat", "/proc/self/maps")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("libcuda.so.1", "libcudart.so.13", "libcudnn.so.9", "libnccl.so.2", "libnvidia-ml.so.1"):
            self.assertIn(f"{LIB}/{name}", done.stdout)

    def test_lean_preload_loads_no_library_into_a_shell(self):
        done = self.run_simcuda("cat", "/proc/self/maps")
        self.assertIn("libsimcuda_zero.so", done.stdout)
        self.assertNotIn("libcuda.so.1", done.stdout)


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class FakeWheelTest(Scratch):
    """A package 'torch' whose one library needs libcublas.so.13, with the DT_RPATH of the real wheels."""

    def make_wheel(self, *symbols, soname="libcublas.so.13"):
        compile_library(self.path("link", soname), "".join(f"int {s}(void) {{ return 1; }}\n" for s in symbols),
                        f"-Wl,-soname,{soname}", f"-Wl,--version-script={self.script(soname)}")
        body = "".join(f"int {s}(void);\n" for s in symbols) + "int call(void) { return %s; }" % (
            " + ".join(f"{s}()" for s in symbols))
        compile_library(self.path("site", "torch", "lib", "libtorch_fake.so"), body, self.path("link", soname),
                        "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../../nvidia/cu13/lib")
        with open(self.path("site", "torch", "__init__.py"), "w", encoding="utf-8"):
            pass
        return self.path("site", "torch", "lib")

    def script(self, soname):
        path = self.path("link.map")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{soname} {{ global: *; }};\n")
        return path

    def call(self, **environment):
        code = ("import ctypes, os, torch\n"
                "lib = os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_fake.so')\n"
                "print(ctypes.CDLL(lib, os.RTLD_NOW).call())\n"
                "print([l.split(None, 5)[5].strip() for l in open('/proc/self/maps') if '/libcublas.so' in l][0])")
        return self.run_simcuda(sys.executable, "-c", code, **environment)

    def test_known_symbols_come_from_our_library(self):
        self.assertEqual(scan_wheel.scan(self.make_wheel("cublasSgemm_v2"), LIB)["missing"], {})
        done = self.call()
        self.assertEqual(done.stdout.splitlines(), ["0", f"{LIB}/libcublas.so.13"], done.stderr)

    def test_ours_win_over_a_real_library_beside_the_wheel(self):
        self.make_wheel("cublasSgemm_v2")
        os.makedirs(self.path("site", "nvidia", "cu13", "lib"))
        shutil.copy(self.path("link", "libcublas.so.13"), self.path("site", "nvidia", "cu13", "lib"))
        alone = subprocess.run([sys.executable, "-c", "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).call())",
                                self.path("site", "torch", "lib", "libtorch_fake.so")],
                               env=dict(os.environ, LD_LIBRARY_PATH=LIB), capture_output=True, text=True, check=True)
        self.assertEqual(alone.stdout, "1\n")  # LD_LIBRARY_PATH alone would not do
        done = self.call()
        self.assertEqual(done.stdout.splitlines(), ["0", f"{LIB}/libcublas.so.13"], done.stderr)

    def test_ours_win_over_real_libraries_in_another_site_folder(self):
        self.make_wheel("cublasSgemm_v2")
        os.makedirs(self.path("others", "nvidia", "cu13", "lib"))
        shutil.copy(self.path("link", "libcublas.so.13"), self.path("others", "nvidia", "cu13", "lib"))
        with open(self.path("site", "others.pth"), "w", encoding="utf-8") as file:
            file.write(self.path("others") + "\n")
        self.assertIn("libsimcuda_preload.so", self.run_simcuda("--print", sys.executable).stdout)
        os.remove(self.path("site", "others.pth"))
        self.assertNotIn("libsimcuda_preload.so", self.run_simcuda("--print", sys.executable).stdout)

    def test_a_pytorch_without_cuda_is_refused(self):
        self.make_wheel("cublasSgemm_v2")
        open(self.path("site", "torch", "lib", "libtorch_cpu.so"), "w", encoding="utf-8").close()
        done = self.call()
        self.assertEqual(done.returncode, 2)
        self.assertIn("is a PyTorch without CUDA", done.stderr)

    def test_reports_the_versions_that_the_wheel_pins(self):
        self.make_wheel("cublasSgemm_v2")
        os.makedirs(self.path("site", "torch-9.9.dist-info"))
        with open(self.path("site", "torch-9.9.dist-info", "METADATA"), "w", encoding="utf-8") as file:
            file.write("Requires-Dist: nvidia-cudnn-cu13==9.26.0.1; platform_system == 'Linux'\n")
        self.assertIn("export SIMCUDA_CUDNN_VERSION=92600\n", self.run_simcuda("--print", sys.executable).stdout)
        mine = self.run_simcuda("--print", sys.executable, SIMCUDA_CUDNN_VERSION="91000").stdout
        self.assertNotIn("SIMCUDA_CUDNN_VERSION", mine)

    def test_the_version_of_cudnn_8_is_counted_in_thousands(self):
        self.make_wheel("cublasSgemm_v2")
        os.makedirs(self.path("site", "torch-2.2.2.dist-info"))
        with open(self.path("site", "torch-2.2.2.dist-info", "METADATA"), "w", encoding="utf-8") as file:
            file.write("Requires-Dist: nvidia-cudnn-cu12 ==8.9.2.26 ; platform_system == 'Linux'\n")
        self.assertIn("export SIMCUDA_CUDNN_VERSION=8902\n", self.run_simcuda("--print", sys.executable).stdout)

    def test_missing_symbol_is_named_and_made(self):
        torch_lib = self.make_wheel("cublasSgemm_v2", "cublasQuantumGemm")
        self.assertEqual(scan_wheel.scan(torch_lib, LIB)["missing"], {"libcublas.so.13": ["cublasQuantumGemm"]})
        for _ in range(2):  # made, then from the cache
            done = self.call()
            self.assertEqual(done.stdout.splitlines()[0], "15", done.stderr)  # CUBLAS_STATUS_NOT_SUPPORTED
        report, = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("cache")) for name in names
                   if name == "report.json"]
        with open(report, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["made"], ["libsimcuda_extra.so"])

    def test_missing_library_is_made(self):
        self.make_wheel("cufancyRun", soname="libcufancy.so.3")
        done = self.run_simcuda(sys.executable, "-c", "import ctypes, os, torch; ctypes.CDLL(os.path.join("
                                "os.path.dirname(torch.__file__), 'lib', 'libtorch_fake.so'), os.RTLD_NOW)")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_cache_that_cannot_be_written_is_no_error(self):
        self.make_wheel("cublasQuantumGemm")
        done = self.call(XDG_CACHE_HOME="/dev/null", TMPDIR=self.folder)
        self.assertEqual((done.stdout.splitlines()[0], done.stderr), ("15", ""))

    def test_without_a_compiler_it_says_what_is_missing(self):
        self.make_wheel("cublasQuantumGemm")
        os.makedirs(self.path("bin"))
        os.symlink(sys.executable, self.path("bin", "python3"))
        done = self.run_simcuda("/bin/true", PATH=self.path("bin"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("cublasQuantumGemm", done.stderr)

    def test_wheel_of_another_cuda_major_is_refused(self):
        self.make_wheel("cudaMalloc", soname="libcudart.so.10.2")
        done = self.run_simcuda(sys.executable, "-c", "pass")
        self.assertEqual(done.returncode, 2)
        self.assertIn("libcudart.so.10.2", done.stderr)
        self.assertEqual(self.run_simcuda("--force", sys.executable, "-c", "pass").returncode, 0)


class Cudnn8(unittest.TestCase):
    """What PyTorch 2.1 to 2.3 are linked with, beside cuDNN 9 in one process."""

    def setUp(self):
        self.eight, self.nine = (ctypes.CDLL(os.path.join(LIB, f"libcudnn.so.{major}")) for major in (8, 9))

    def test_version(self):
        self.assertEqual([library.cudnnGetVersion() for library in (self.eight, self.nine)], [8902, 91900])
        parts = []
        for part in range(3):
            value = ctypes.c_int()
            self.assertEqual(self.eight.cudnnGetProperty(part, ctypes.byref(value)), 0)
            parts.append(value.value)
        self.assertEqual(parts, [8, 9, 2])

    def test_recurrent_nets_are_refused_with_the_way_out(self):
        self.eight.cudnnGetErrorString.restype = ctypes.c_char_p
        for name in ("cudnnGetRNNParamsSize", "cudnnRNNForwardTraining", "cudnnSetRNNDescriptor_v6"):
            text = self.eight.cudnnGetErrorString(getattr(self.eight, name)()).decode()
            self.assertIn("PyTorch 2.4 or newer", text)
            self.assertIn("torch.backends.cudnn.enabled = False", text)

    def test_convolutions_are_those_of_cudnn_9(self):
        made = ctypes.c_void_p()
        self.assertEqual(self.eight.cudnnCreateConvolutionDescriptor(ctypes.byref(made)), 0)
        self.assertTrue(made.value)
        self.assertEqual(self.eight.cudnnBackendCreateDescriptor(0, ctypes.byref(made)), 0)

    def test_the_parts_that_pytorch_opens_by_name(self):
        for part in ("infer", "train"):
            library = ctypes.CDLL(os.path.join(LIB, f"libcudnn_cnn_{part}.so.8"))
            self.assertEqual(getattr(library, f"cudnnCnn{part.capitalize()}VersionCheck")(), 0)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Wheel, tarball and Debian package in a bare root of an older Debian (no compiler, nothing of this machine), as a user without rights, on an unmodified CUDA wheel of PyTorch; the
wheel as it comes from an index.

    python tests/packaging/old_root_test.py [--suite bookworm] [--root FOLDER]

debootstrap makes the root, which needs root here; in it everything is user 1000. 0.6 to 0.9 GB are fetched: pip and debootstrap keep nothing of it here unless
--root names a folder, which then is made once and kept.
"""

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import local_index
import packages


@dataclasses.dataclass(frozen=True)
class Suite:
    glibc: str
    python: str
    torch: str


SUITES = {"bullseye": Suite("2.31", "3.9", "torch==2.8.0"), "bookworm": Suite("2.36", "3.11", "torch==2.11.0")}  # 2.8: the last for Python 3.9
NUMPY = {"3.9": "numpy<2.1"}
BESIDE = ("filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "sympy", "typing_extensions")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
# A program without PyTorch, which every Python can run.
CUDA = """
import ctypes
cuda, kept = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
context = ctypes.c_void_p()
for code in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(kept), ctypes.c_size_t(1 << 20))):
    assert code == 0, code
"""
ENTER = """
mount -t proc proc "$1/proc"
mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm"
root=$1; shift
exec chroot --userspec="$1" "$root" /usr/bin/env -i HOME=/home/user PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 PIP_DISABLE_PIP_VERSION_CHECK=1 sh -ec "$2"
"""
ROOT = SUITE = WHEEL = None
OTHERS = []


def tail(text):
    return (text.strip().splitlines() or ["no reason given"])[-1]


def wanted():
    """What pip installs for PyTorch."""
    suite = SUITES[SUITE]
    return (suite.torch, NUMPY.get(suite.python, "numpy"), *BESIDE)


def make_root(folder):
    """The root with its Python, and PyTorch's wheels beside it. Skips where they cannot be had."""
    made = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv", SUITE, str(folder)], capture_output=True, text=True)
    if made.returncode:
        packages.skip(f"debootstrap made no root of {SUITE}: {tail(made.stdout + made.stderr)}")
    wheels = folder / "home/user/wheels"
    wheels.mkdir(parents=True)
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    got = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--python-version", SUITES[SUITE].python,
                          "--implementation", "cp", *platforms, "-d", str(wheels), *wanted()], capture_output=True, text=True)
    if got.returncode:
        packages.skip(f"pip could not download {SUITES[SUITE].torch} for Python {SUITES[SUITE].python}: {tail(got.stderr)}")
    (folder / "complete").touch()


def inside(script, user="1000:1000"):
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-ec", ENTER, "enter", str(ROOT), user, f"cd; {script}"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssertionError(f"{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class OldRootTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        home = ROOT / "home/user"
        shutil.rmtree(home / "work", ignore_errors=True)
        for path in (WHEEL, *OTHERS):
            shutil.copy(path, home)
        shutil.copy(packages.EXERCISE, home)
        for path in [home, *home.rglob("*")]:
            os.chown(path, 1000, 1000, follow_symlinks=False)
        passwd = ROOT / "etc/passwd"
        if ":1000:" not in passwd.read_text():  # PyTorch asks for the user's name
            passwd.write_text(f"{passwd.read_text()}user:x:1000:1000::/home/user:/bin/sh\n")
        inside("rm -rf venv tree; python3 -m venv venv")
        names = " ".join(f"'{name}'" for name in wanted())
        inside(f"venv/bin/pip install --quiet --no-index --no-deps --find-links wheels {names}")

    def test_it_is_what_is_promised(self):
        self.assertIn(SUITES[SUITE].glibc, inside("ldd --version | head -n 1"))
        self.assertEqual(inside("id -u").strip(), "1000")
        self.assertEqual(inside("for name in cc gcc clang; do command -v $name || true; done"), "")

    def test_the_first_minute(self):
        """From an index to the first report, of a program without PyTorch and of one with it; then nothing is left. Seconds are printed: machines differ."""
        (ROOT / "home/user/cuda.py").write_text(CUDA)
        everything = "find venv ! -path '*/__pycache__*' | sort"
        before, begun = inside(everything), time.monotonic()
        with local_index.LocalIndex([WHEEL]) as index:
            inside(f"venv/bin/pip install --quiet --no-deps --index-url {index.url} gpumemshim")
        installed = time.monotonic()
        if "--example" in inside("venv/bin/gpumemshim report --help"):
            self.assertIn("out of memory", inside("venv/bin/gpumemshim report --example oom").lower())
        else:
            inside("venv/bin/gpumemshim run -q --force -o cuda.gmtrace -- venv/bin/gpumemshim simulate -- python3 cuda.py")
            self.assertIn("cuda.py:5", inside("venv/bin/gpumemshim report cuda.gmtrace"))
        reported = time.monotonic()
        inside("cd venv; echo 'import torch; kept = torch.ones(1 << 20, device=\"cuda\")' > first.py; bin/gpumemshim run -q --force -o first.gmtrace -- bin/gpumemshim simulate -- bin/python first.py")
        self.assertIn("first.py:1", inside("cd venv; bin/gpumemshim report first.gmtrace; rm first.py first.gmtrace"))
        print(f"installed in {installed - begun:.1f} s, first report after {reported - begun:.1f} s, of PyTorch after {time.monotonic() - begun:.1f} s")
        inside("venv/bin/pip uninstall --quiet --yes gpumemshim")
        self.assertEqual(inside(everything), before)

    def test_the_wheel(self):
        inside("venv/bin/pip install --quiet --no-index gpumemshim-*.whl")
        self.assertRegex(inside("venv/bin/python -m gpumemshim --version"), r"^gpumemshim \d")
        print(inside('venv/bin/python exercise.py --gpumem venv/bin/gpumemshim --python "$HOME/venv/bin/python" --folder work'))
        inside("venv/bin/pip uninstall --quiet --yes gpumemshim")

    def test_the_tarball(self):
        inside("mkdir tree && tar -xzf gpumemshim-*.tar.gz -C tree")
        print(inside('venv/bin/python exercise.py --gpumem tree/*/bin/gpumemshim --python "$HOME/venv/bin/python" --folder work'))

    def test_the_debian_package(self):
        """Only installing it needs rights."""
        inside("dpkg -i gpumemshim_*_amd64.deb", user="0:0")
        print(inside('venv/bin/python exercise.py --gpumem /usr/bin/gpumemshim --python "$HOME/venv/bin/python" --folder work'))
        self.assertEqual(inside("python3 -c 'from gpumemshim import _program; print(_program.find())'"), "/usr/bin/gpumemshim\n")
        self.assertEqual(inside("test -s /usr/share/man/man1/gpumemshim-report.1.gz && test -s /usr/share/doc/gpumemshim/copyright && echo both"), "both\n")
        inside("dpkg --purge gpumemshim", user="0:0")
        self.assertEqual(inside("find /usr -name '*gpumemshim*' ! -path '/usr/share/doc/*'"), "")

    def test_from_inside_the_program(self):
        """gpumemshim.record() where nothing is preloaded."""
        inside("venv/bin/pip install --quiet --no-index gpumemshim-*.whl")
        self.addCleanup(inside, "venv/bin/pip uninstall --quiet --yes gpumemshim")
        (ROOT / "home/user/inside.py").write_text("import gpumemshim, torch\nwith gpumemshim.record() as part:\n    kept = torch.ones(1 << 20, device='cuda')\n"
                                                  "print(part.peak_bytes, part.grown_bytes)")
        self.assertEqual(inside("venv/bin/gpumemshim simulate -- venv/bin/python inside.py").split(), [str(1 << 22)] * 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, help="keep the root here")
    parser.add_argument("--suite", choices=list(SUITES), default="bullseye")
    arguments, rest = packages.arguments_of(parser)
    SUITE = arguments.suite
    for tool in ("debootstrap", "unshare"):
        if shutil.which(tool) is None:
            packages.skip(f"{tool} is not installed")
    if os.geteuid() != 0:
        packages.skip("making a root with debootstrap needs root")
    with tempfile.TemporaryDirectory(prefix="gpumemshim-root-") as scratch:
        ROOT = (arguments.root or pathlib.Path(scratch) / "root").absolute()
        if not (ROOT / "complete").exists():
            make_root(ROOT)
        WHEEL, *OTHERS = packages.made("wheel", "tarball", "deb")
        packages.run_tests(rest)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The linker's view of an older glibc, in .deps/glibc: its libraries' symbols with their versions, and the objects that start a program.

    folder = sysroot()         .deps/glibc; fetched (93 MB, 2 MB of it are kept) where it is not there
    folder = sysroot(fetch=False)     None where it is not there

They come from the compiler in PyPI's wheel `ziglang`, which makes them for any version of glibc. It is removed again.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "2.28"
PIN = ROOT / "scripts/requirements/old_glibc.txt"
FOLDER = ROOT / ".deps/glibc"
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}


def pinned():
    return f"{VERSION}\n{PIN.read_text()}"


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command[:4]))} failed:\n{done.stdout[-2000:]}")


def the_one(folder, name):
    """The file of this name below the compiler's cache. RuntimeError where it is not there."""
    found = next((path for path in sorted(folder.rglob(name)) if path.is_file()), None)
    if found is None:
        raise RuntimeError(f"the compiler of {PIN.name} made no {name}")
    return found


def make(compiler, cache, folder):
    """Has the compiler link a program against every library, and takes what it made for that."""
    source = cache / "program.c"
    source.write_text("#include <dlfcn.h>\n#include <math.h>\n#include <pthread.h>\n#include <stdio.h>\n"
                      "int main(int n, char** v) { return printf(\"%f\", pow(n, 2)) + (dlopen(v[0], 1) != 0); }\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cache), "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    run(compiler, "cc", "-target", f"x86_64-linux-gnu.{VERSION}", source, "-o", cache / "program", "-lm", "-lpthread", "-ldl", "-lrt", env=environment, cwd=cache)
    folder.mkdir(parents=True)
    for name in LIBRARIES:
        shutil.copy(the_one(cache, name), folder / name)
        if name != "libc.so.6":
            (folder / name).with_suffix("").symlink_to(name)
    shutil.copy(the_one(cache, "libld.so.2"), folder / "ld-linux-x86-64.so.2")
    shutil.copy(the_one(cache, "libc_nonshared.a"), folder)
    # One that any position suits; gcc asks for it by this name when it links a position-independent program.
    shutil.copy(the_one(cache, "crt1.o"), folder / "Scrt1.o")
    (folder / "libc.so").write_text("GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( ld-linux-x86-64.so.2 ) )\n")
    shutil.copy(the_one(compiler.parent, "LICENSES"), folder / "LICENSES")


def sysroot(fetch=True):
    """The folder; None where it is not there and not to be fetched. Raises RuntimeError where it cannot be had."""
    mark = FOLDER / "pinned.txt"
    if mark.is_file() and mark.read_text() == pinned():
        return FOLDER
    if not fetch:
        return None
    with tempfile.TemporaryDirectory(prefix="gpumemshim-glibc-") as scratch:
        scratch = pathlib.Path(scratch)
        run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input", "--disable-pip-version-check", "--require-hashes", "--only-binary=:all:",
            "--no-compile", "--no-cache-dir", "--target", scratch / "wheel", "-r", PIN)
        (scratch / "cache").mkdir()
        make(scratch / "wheel/ziglang/zig", scratch / "cache", scratch / "made")
        (scratch / "made/pinned.txt").write_text(pinned())
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.parent.mkdir(exist_ok=True)
        shutil.move(scratch / "made", FOLDER)
    return FOLDER

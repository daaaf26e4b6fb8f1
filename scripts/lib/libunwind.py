# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""libunwind.so.8 for packages, in .deps/libunwind: many machines have none, and without it a native stack takes many times as long.

    library = built(old_glibc.sysroot())     .deps/libunwind/libunwind.so.8; fetched and built (a minute) where it is not there

Its archive is not made for shared libraries, and Debian's library needs glibc 2.34, so it is built from Debian's source package: without C++ exceptions
(the program's are its own affair) and without what would need further libraries.
"""

import pathlib
import shutil
import subprocess
import tempfile

import debian_source
import old_glibc

ROOT = old_glibc.ROOT
PIN = ROOT / "scripts/requirements/libunwind.txt"
FOLDER = ROOT / ".deps/libunwind"
OPTIONS = ("--disable-static", "--with-pic", "--disable-cxx-exceptions", "--disable-minidebuginfo", "--disable-zlibdebuginfo", "--disable-coredump", "--disable-ptrace",
           "--disable-setjmp", "--disable-documentation", "--disable-tests")


def built(sysroot):
    """The library's path. RuntimeError where it cannot be had."""
    library, mark = FOLDER / "libunwind.so.8", FOLDER / "pinned.txt"
    wanted = PIN.read_text() + (sysroot / "pinned.txt").read_text() + " ".join(OPTIONS)
    if library.is_file() and mark.is_file() and mark.read_text() == wanted:
        return library
    if shutil.which("make") is None:
        raise RuntimeError("make is missing, which builds libunwind. Install it (Debian: apt-get install make).")
    package = PIN.read_text().splitlines()[-1].split()[0]
    with tempfile.TemporaryDirectory(prefix="gpumemshim-libunwind-") as scratch:
        scratch = pathlib.Path(scratch)
        archive = debian_source.fetch_pinned(PIN, scratch)
        old_glibc.run("tar", "-xzf", archive, "-C", scratch)
        source = next(path for path in scratch.glob(f"{package}-*") if path.is_dir())
        # -Bsymbolic: a program may have another libunwind, whose functions are not to be called by this one.
        flags = f"-B{sysroot}/ -L{sysroot} -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack"
        old_glibc.run("./configure", "--quiet", *OPTIONS, "CFLAGS=-O2", f"LDFLAGS={flags}", cwd=source)
        old_glibc.run("make", "-s", "-j2", "-C", "src", "libunwind.la", cwd=source)
        FOLDER.mkdir(parents=True, exist_ok=True)
        shutil.copy((source / "src/.libs/libunwind.so.8").resolve(), library)
    subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    mark.write_text(wanted)
    return library

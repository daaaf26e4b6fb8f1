# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""libunwind.so.8 for packages, in .deps/libunwind: many machines have none, and without it a native stack takes many times as long.

    library = built(old_glibc.sysroot())     .deps/libunwind/libunwind.so.8; fetched and built (a minute) where it is not there

Its archive is not made for shared libraries, and Debian's library needs glibc 2.34, so it is built from Debian's source package: without C++ exceptions
(the program's are its own affair) and without what would need further libraries.
"""

import hashlib
import pathlib
import re
import shutil
import subprocess
import tempfile

import old_glibc

ROOT = old_glibc.ROOT
PIN = ROOT / "scripts/requirements/libunwind.txt"
FOLDER = ROOT / ".deps/libunwind"
OPTIONS = ("--disable-static", "--with-pic", "--disable-cxx-exceptions", "--disable-minidebuginfo", "--disable-zlibdebuginfo", "--disable-coredump", "--disable-ptrace",
           "--disable-setjmp", "--disable-documentation", "--disable-tests")
APT = pathlib.Path("/etc/apt")


def of_sources(text):
    """A file of apt's sources, asking for sources where it asked for packages."""
    return re.sub(r"^deb(?= )", "deb-src", re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.M), flags=re.M)


def codename():
    return re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)[1]


def fetch(package, version, folder, release=None):
    """The source package, by apt as this machine configures it, or as if the machine were of another `release` of Debian; nothing of it is changed."""
    parts = folder / "parts"
    for name in ("parts", "state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    for path in [APT / "sources.list", *(APT / "sources.list.d").glob("*.list"), *(APT / "sources.list.d").glob("*.sources")]:
        if path.is_file():
            name = path.name if path.suffix == ".sources" else f"{path.stem}.list"
            text = of_sources(path.read_text())
            (parts / name).write_text(text.replace(codename(), release) if release else text)
    options = ["-q", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}", "-o", f"Dir::State={folder / 'state'}",
               "-o", f"Dir::Cache={folder / 'cache'}", "-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "APT::Sandbox::User="]
    old_glibc.run("apt-get", *options, "update", cwd=folder)
    old_glibc.run("apt-get", *options, "source", "--download-only", f"{package}={version}", cwd=folder)


def fetch_pinned(pin, folder, release=None):
    """The archive that the last line of `pin` names: package, version, file, its SHA-256. RuntimeError where it cannot be had."""
    package, version, archive, digest = pin.read_text().splitlines()[-1].split()
    fetch(package, version, folder, release)
    if "sha256:" + hashlib.sha256((folder / archive).read_bytes()).hexdigest() != digest:
        raise RuntimeError(f"{archive} is not the one of {pin.name}")
    return folder / archive


def built(sysroot):
    """The library's path. RuntimeError where it cannot be had."""
    library, mark = FOLDER / "libunwind.so.8", FOLDER / "pinned.txt"
    wanted = PIN.read_text() + (sysroot / "pinned.txt").read_text() + " ".join(OPTIONS)
    if library.is_file() and mark.is_file() and mark.read_text() == wanted:
        return library
    if shutil.which("make") is None:
        raise RuntimeError("make is missing, which builds libunwind. Install it (Debian: apt-get install make).")
    package = PIN.read_text().splitlines()[-1].split()[0]
    with tempfile.TemporaryDirectory(prefix="gpumem-libunwind-") as scratch:
        scratch = pathlib.Path(scratch)
        archive = fetch_pinned(PIN, scratch)
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

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The licences of what is linked into the files of a package: Debian's copyright files of the packages that the archives came from, the licence texts
that these refer to, and a list of all with versions.

    files, absent = collected(pathlib.Path(".deps/duckdb/LICENSE"))     {"libabsl-dev.txt": "...", "README.md": "..."}, ["libfoo-dev"]
"""

import pathlib
import re
import subprocess

# Debian's package -> what of it is in which file, and under which of SPDX's licences. docs/dependencies.md says why each is used.
PARTS = {
    "libabsl-dev": ("abseil, in gpumemshim", "Apache-2.0"),
    "libprotobuf-dev": ("protobuf, in gpumemshim", "BSD-3-Clause"),
    "libdw-dev": ("elfutils (libdw, libelf), in gpumemshim", "LGPL-3.0-or-later"),
    "liblzma-dev": ("xz (liblzma), in gpumemshim", "LicenseRef-Public-Domain"),
    "libbz2-dev": ("bzip2, in gpumemshim", "bzip2-1.0.6"),
    "libsqlite3-dev": ("SQLite, in gpumemshim", "blessing"),
    "zlib1g-dev": ("zlib, in gpumemshim", "Zlib"),
    "libzstd-dev": ("zstd, in gpumemshim", "BSD-3-Clause"),
    "liblz4-dev": ("LZ4, in gpumemshim and libgpumemshim.so", "BSD-2-Clause"),
    "libxxhash-dev": ("xxHash, in gpumemshim and libgpumemshim.so", "BSD-2-Clause"),
    "libcairo2-dev": ("cairo, in gpumemshim", "MPL-1.1"),
    "libpixman-1-dev": ("pixman, in gpumemshim", "MIT"),
    "libfontconfig-dev": ("fontconfig, in gpumemshim", "HPND-sell-variant"),
    "libfreetype-dev": ("FreeType, in gpumemshim", "FTL"),
    "libpng-dev": ("libpng, in gpumemshim", "libpng-2.0"),
    "libexpat1-dev": ("expat, in gpumemshim", "MIT"),
    "libbrotli-dev": ("brotli, in gpumemshim", "MIT"),
    "fonts-dejavu-core": ("DejaVu Sans, in gpumemshim", "Bitstream-Vera"),
    "libncurses-dev": ("ncurses and terminfo, in gpumemshim", "X11-distribute-modifications-variant"),
    "libevent-dev": ("libevent, in gpumemshim", "BSD-3-Clause"),
    "libminizip-dev": ("minizip, in gpumemshim", "Zlib"),
    "libyaml-cpp-dev": ("yaml-cpp, in gpumemshim", "MIT"),
    "libcli11-dev": ("CLI11, in gpumemshim", "BSD-3-Clause"),
    "nlohmann-json3-dev": ("nlohmann-json, in gpumemshim", "MIT"),
    "libstdc++-12-dev": ("libstdc++ and libgcc, with the GCC runtime library exception, in gpumemshim, libgpumemshim.so and simcuda", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "libunwind-dev": ("libunwind, libunwind.so.8 in packages", "MIT"),
    "libc6-dev": ("glibc's start-up objects, which its licence lets be linked without condition, in all", "LGPL-2.1-or-later"),
}
DUCKDB = ("DuckDB, libduckdb.so, from its npm package and stripped", "MIT")
OURS = "Apache-2.0"
COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z]+(?:-[0-9.]*[0-9])?)")
LIST = """# Licences of what is in this package

gpumemshim itself is under Apache-2.0 (LICENSE). These parts are linked into its files; each one's licence is in the file beside this one.

| part | version | file |
|---|---|---|
{rows}

elfutils is free software under LGPL-3.0-or-later or GPL-2.0-or-later, used here under the former. It is linked {how}. You may
change it and link gpumemshim again: gpumemshim's sources, `scripts/build` and `scripts/package` do that with whatever libdw and libelf are installed. Its
source is Debian's source package elfutils in the version above (`apt-get source elfutils={version}`). cairo is used under MPL-1.1; its source is Debian's
source package cairo.
"""


def expression():
    """Of a package with all parts in it, as SPDX writes it."""
    return " AND ".join([OURS, *sorted({licence for _, licence in (*PARTS.values(), DUCKDB)} - {OURS})])


def version_of(package):
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def collected(duckdb, how, doc=pathlib.Path("/usr/share/doc"), common=pathlib.Path("/usr/share/common-licenses")):
    """`how` elfutils is linked: "statically" or "dynamically". -> the files by name, and the packages without a copyright file."""
    files, absent, rows, wanted = {}, [], [], {"LGPL-3", "GPL-3", "MPL-1.1"}
    for package, (part, _) in PARTS.items():
        path = doc / package / "copyright"
        if not path.is_file():
            absent.append(package)
            continue
        files[f"{package}.txt"] = path.read_text(encoding="utf-8", errors="replace")
        wanted |= set(COMMON.findall(files[f"{package}.txt"]))
        rows.append(f"| {part} | {version_of(package)} | {package}.txt |")
    if duckdb.is_file():
        files["duckdb.txt"] = duckdb.read_text(encoding="utf-8")
        rows.append(f"| {DUCKDB[0]} | see scripts/requirements/duckdb.txt | duckdb.txt |")
    for name in sorted(wanted):
        if (common / name).is_file():
            files[f"common-{name}.txt"] = (common / name).read_text(encoding="utf-8", errors="replace")
    files["README.md"] = LIST.format(rows="\n".join(rows), version=version_of("libdw-dev"), how=how)
    return files, absent

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Facts about a shared object, as readelf and nm tell them."""

import re
import subprocess


def tool(*command):
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin:/usr/local/bin", "LC_ALL": "C"})
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout


def needed(library):
    """The NEEDED entries, in order."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", tool("readelf", "-dW", library))


def versions(library):
    """What it asks of the versions of other libraries' symbols: {"GLIBC_2.2.5", "GLIBCXX_3.4.11", ...}."""
    return set(re.findall(r"^\s+0x[0-9a-f]+:\s+Name: (\S+)\s+Flags:", tool("readelf", "-VW", library).partition(".gnu.version_r")[2], re.M))


def versioned_imports(library):
    """(symbol, version) of what it takes from other libraries."""
    rows = [line.split() for line in tool("nm", "-D", "--undefined-only", library).splitlines()]
    return sorted(tuple(row[-1].split("@")) for row in rows if "@" in row[-1])


def exports(library):
    """Names of the defined dynamic symbols, without the version nodes themselves."""
    rows = [line.split() for line in tool("nm", "-D", "--defined-only", "--without-symbol-versions", library).splitlines()]
    return sorted({row[-1] for row in rows if row[-2] != "A"})


def search_paths(library):
    """The folders of RPATH and RUNPATH."""
    lists = re.findall(r"\((?:RPATH|RUNPATH)\)\s+Library (?:rpath|runpath): \[(.*?)\]", tool("readelf", "-dW", library))
    return [folder for text in lists for folder in text.split(":")]


def has_debug_sections(library):
    return ".debug_info" in tool("readelf", "-SW", library)


def unbound(library):
    """Undefined symbols that no NEEDED library was found to define when it was linked (`-z defs` forbids them): without a version, and not weak."""
    rows = [line.split() for line in tool("nm", "-D", "--undefined-only", library).splitlines()]
    return sorted(row[-1] for row in rows if row[-2] == "U" and "@" not in row[-1])


def initialisers(library):
    """Names of the functions in .init_array. A stripped library gives addresses, as <0x...>."""
    size = re.search(r"\(INIT_ARRAYSZ\)\s+(\d+)", tool("readelf", "-dW", library))
    count = int(size.group(1)) // 8 if size else 0
    section = re.search(r"\.init_array\s+INIT_ARRAY\s+([0-9a-f]+)", tool("readelf", "-SW", library))
    if not count or not section:
        return []
    start = int(section.group(1), 16)
    names = {int(row.split()[0], 16): row.split()[-1] for row in tool("nm", library).splitlines() if row[:1] != " " and len(row.split()) == 3}
    found = []
    for match in re.finditer(r"^([0-9a-f]+)\s+[0-9a-f]+\s+R_\S+_RELATIVE\s+([0-9a-f]+)", tool("readelf", "-rW", library), re.M):
        if start <= int(match.group(1), 16) < start + 8 * count:
            address = int(match.group(2), 16)
            found.append(names.get(address, f"<{address:#x}>"))
    return found + ["<not relative>"] * (count - len(found))


def static_tls_bytes(library):
    """Size of the thread-local block."""
    segment = re.search(r"^\s+TLS\s+(?:0x[0-9a-f]+\s+){4}0x([0-9a-f]+)", tool("readelf", "-lW", library), re.M)
    return int(segment.group(1), 16) if segment else 0


def compilers(library):
    """The compilers that had a part in it, as they name themselves."""
    return re.findall(r"^\s+\[\s*[0-9a-f]+\]\s+(.+)$", tool("readelf", "-p", ".comment", library), re.M)

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Source packages of Debian, fetched by apt as this machine configures it.

    archive = fetch_pinned(requirements / "libunwind.txt", folder)      the archive that the file's last line pins, by its SHA-256
"""

import hashlib
import pathlib
import re

import old_glibc

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

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The source distribution (PEP 643): every file of the repository, and what lets pip build it (source_backend.py).

    path = make(ROOT, pathlib.Path("build/package"))     build/package/gpumemshim-0.1.0.tar.gz

The files are those that git tracks; where there is no git, in an unpacked source distribution, those that its list names. The same files give the same bytes.
"""

import gzip
import io
import re
import subprocess
import tarfile

import licences
import wheel

LIST = "SOURCES.txt"
MADE = {"PKG-INFO", "pyproject.toml", LIST}
TIME = 315532800  # 1980-01-01, as in the wheel
# Of python/pyproject.toml, what is built by setuptools there; here it is all built.
BUILD_SYSTEM = '[build-system]\nrequires = ["pip"]\nbuild-backend = "source_backend"\nbackend-path = ["scripts/lib"]\n'
SECTION = re.compile(r"^\[(build-system|tool\.[\w.-]+)\]\n(?:(?!\[[\w.-]+\]$).*\n?)*", re.M)


def names(root):
    """Paths of the repository's files, sorted."""
    if (root / LIST).is_file():
        return (root / LIST).read_text(encoding="utf-8").splitlines()
    done = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{root} is neither a clone nor an unpacked source distribution: {done.stderr.strip()}")
    return sorted(name for name in done.stdout.split("\0") if name and (root / name).is_file())


def pyproject(root):
    """python/pyproject.toml for the root: the same project, built by our own means."""
    text = (root / "python/pyproject.toml").read_text(encoding="utf-8")
    return SECTION.sub("", text).replace("[project]", f"{BUILD_SYSTEM}\n[project]", 1).replace('readme = "README.md"', 'readme = "python/README.md"').rstrip() + "\n"


def information(root):
    """PKG-INFO. A wheel has more parts in it, and so more licences."""
    project = wheel.read_project(root / "python")
    return wheel.metadata(project, wheel.description(project, root / "python"), licences.OURS, ["LICENSE"], dynamic=("License-Expression", "License-File"))


def make(root, folder):
    project = wheel.read_project(root / "python")
    stem = f"{project['name']}-{project['version']}"
    files = names(root)
    contents = {name: (root / name).read_bytes() for name in files}
    contents |= {"PKG-INFO": information(root).encode(), "pyproject.toml": pyproject(root).encode(), LIST: "".join(f"{name}\n" for name in files).encode()}
    path = folder / f"{stem}.tar.gz"
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=TIME) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size, entry.mtime = len(data), TIME
            entry.mode = 0o755 if name not in MADE and (root / name).stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return path

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A wheel made of an installed tree (PEP 427): the package for Python, the tree inside its folder, and the small program that pip puts into the folder of commands.

    path = make(stage, Facts(ROOT / "python", "manylinux_2_28_x86_64", launcher, bill), pathlib.Path("build/package"))

All is in the one folder `gpumemshim`, so that what finds the package has the rest: `pip install --target`, a zip file, a copied folder. The same tree gives the same bytes.
"""

import base64
import dataclasses
import hashlib
import pathlib
import re
import tomllib
import zipfile

import licences
import release
import sbom

DATE = (1980, 1, 1, 0, 0, 0)
# Where a part of the tree goes in the wheel; "" leaves it out.
PLACES = (
    ("share/gpumemshim/python/", ""),  # the package itself, in the wheel anyhow
    ("share/doc/gpumemshim/licences/", "{info}/licenses/"),
    ("share/doc/gpumemshim/LICENSE", "{info}/licenses/LICENSE"),
    ("share/doc/gpumemshim/README.md", ""),
    ("", "{package}/"),
)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")


@dataclasses.dataclass
class Facts:
    python: pathlib.Path  # the folder with pyproject.toml
    platform: str  # "manylinux_2_28_x86_64"
    launcher: pathlib.Path  # the command
    bill: str  # of materials


class Archive:
    """A zip file that notes each entry for RECORD."""

    def __init__(self, path):
        self.zip, self.rows = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9), []

    def add(self, name, data, executable=False):
        entry = zipfile.ZipInfo(name, DATE)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.rows.append(f"{name},sha256={digest},{len(data)}\n")

    def add_file(self, name, path, executable=None):
        self.add(name, path.read_bytes(), path.stat().st_mode & 0o100 != 0 if executable is None else executable)

    def close(self, record):
        entry = zipfile.ZipInfo(record, DATE)
        entry.external_attr = 0o100644 << 16
        self.zip.writestr(entry, "".join(self.rows) + f"{record},,\n")
        self.zip.close()


def read_project(python):
    """[project] of pyproject.toml, with its version."""
    project = tomllib.loads((python / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {**project, "version": release.version(python.parent)}


def description(project, python):
    """The readme, without links to files that are not beside it where it is shown."""
    return LINK.sub(r"\1", (python / project["readme"]).read_text(encoding="utf-8"))


def metadata(project, readme, licence, files, dynamic=()):
    """METADATA of a wheel, PKG-INFO of a source package. `files`: of licences, by their paths below the folder of licences."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {project['version']}", f"Summary: {project['description']}"]
    lines += [f"Author: {author['name']}" for author in project["authors"]]
    lines += [f"Keywords: {','.join(project['keywords'])}", f"License-Expression: {licence}"]
    lines += [f"License-File: {name}" for name in sorted(files)] + [f"Dynamic: {field}" for field in dynamic]
    lines += [f"Project-URL: {label}, {address}" for label, address in project.get("urls", {}).items()]
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    lines.append(f"Requires-Python: {project['requires-python']}")
    lines += [f"Requires-Dist: {dependency}" for dependency in project.get("dependencies", [])]
    for extra, dependencies in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {dependency}; extra == "{extra}"' for dependency in dependencies]
    lines += ["Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines)


def entry_points(project):
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    return "".join(f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items()) for group, points in groups.items() if points)


def add_tree(archive, stage, **folders):
    for path in sorted(stage.rglob("*")):
        name = path.relative_to(stage).as_posix()
        if path.is_dir():
            continue
        begin, place = next((begin, place) for begin, place in PLACES if name.startswith(begin))
        if place:
            archive.add_file(place.format(**folders) + name[len(begin):], path)


def add_information(archive, project, facts, info):
    """The folder .dist-info."""
    begin = f"{info}/licenses/"
    files = [row.split(",")[0][len(begin):] for row in archive.rows if row.startswith(begin)]
    archive.add(f"{info}/METADATA", metadata(project, description(project, facts.python), licences.expression(), files).encode())
    archive.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: scripts/package\nRoot-Is-Purelib: false\nTag: py3-none-{facts.platform}\n".encode())
    if points := entry_points(project):
        archive.add(f"{info}/entry_points.txt", points.encode())
    archive.add(f"{info}/top_level.txt", f"{project['name']}\n".encode())
    archive.add(f"{info}/sboms/{sbom.NAME}", facts.bill.encode())


def make(stage, facts, folder):
    project = read_project(facts.python)
    stem = f"{project['name']}-{project['version']}"
    path, info = folder / f"{stem}-py3-none-{facts.platform}.whl", f"{stem}.dist-info"
    archive = Archive(path)
    for source in sorted((facts.python / project["name"]).rglob("*")):
        if source.suffix in (".py", ".pyi", ".sql", ".typed"):
            archive.add_file(source.relative_to(facts.python).as_posix(), source, executable=False)
    add_tree(archive, stage, package=project["name"], info=info)
    archive.add_file(f"{stem}.data/scripts/{project['name']}", facts.launcher, executable=True)
    add_information(archive, project, facts, info)
    archive.close(f"{info}/RECORD")
    return path

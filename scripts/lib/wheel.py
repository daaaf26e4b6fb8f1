# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A wheel made of an installed tree (PEP 427): the package for Python as any, the tree as scripts and data, which pip puts below the environment.

    path = make(stage, ROOT / "python", pathlib.Path("build/package"), "manylinux_2_28_x86_64")

The same tree gives the same bytes.
"""

import base64
import hashlib
import tomllib
import zipfile

DATE = (1980, 1, 1, 0, 0, 0)
# Where a part of the tree goes in the wheel; "" leaves it out. pip removes a folder with a package when all in it is the package's and one file lies in
# it directly: so share/gpumemshim has CHANGELOG.md, and nothing goes into folders that the environment had before (include) but programs do not search.
PLACES = (
    ("share/gpumemshim/python/", ""),  # the package itself, in the wheel anyhow
    ("share/doc/gpumemshim/licences/", "{info}/licenses/"),
    ("share/doc/gpumemshim/LICENSE", "{info}/licenses/LICENSE"),
    ("share/doc/gpumemshim/CHANGELOG.md", "{data}/data/share/gpumemshim/CHANGELOG.md"),
    ("share/doc/gpumemshim/", ""),
    ("include/", "{data}/data/share/gpumemshim/include/"),
    ("bin/", "{data}/scripts/"),
    ("", "{data}/data/"),
)


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


def metadata(project, readme):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", f"Summary: {project['description']}",
             f"License: {project['license']['text']}", f"Requires-Python: {project['requires-python']}"]
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


def make(stage, python, folder, platform):
    project = tomllib.loads((python / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{project['name']}-{project['version']}"
    path, info = folder / f"{stem}-py3-none-{platform}.whl", f"{stem}.dist-info"
    archive = Archive(path)
    for source in sorted((python / project["name"]).rglob("*")):
        if source.suffix in (".py", ".pyi", ".sql", ".typed"):
            archive.add_file(source.relative_to(python).as_posix(), source, executable=False)
    add_tree(archive, stage, data=f"{stem}.data", info=info)
    archive.add(f"{info}/METADATA", metadata(project, (python / project["readme"]).read_text(encoding="utf-8")).encode())
    archive.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: scripts/package\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode())
    if points := entry_points(project):
        archive.add(f"{info}/entry_points.txt", points.encode())
    archive.add(f"{info}/top_level.txt", f"{project['name']}\n".encode())
    archive.close(f"{info}/RECORD")
    return path

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""unpack_headers.py WHEELS_DIR INCLUDE_DIR: copies every file under an `include/` folder of the wheels into INCLUDE_DIR, and nothing else."""

import pathlib
import sys
import zipfile


def header_path(member):
    """The path below include/, or None. Wheels hold nvidia/cu13/include/... or nvidia/<part>/include/...; a path that climbs out is refused."""
    parts = pathlib.PurePosixPath(member).parts
    if "include" not in parts or member.endswith("/"):
        return None
    below = parts[parts.index("include") + 1 :]
    if not below or ".." in below or pathlib.PurePosixPath(*below).suffix == ".py":
        return None
    return pathlib.Path(*below)


def main():
    wheels, include = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                target = header_path(member)
                if target is None:
                    continue
                (include / target).parent.mkdir(parents=True, exist_ok=True)
                (include / target).write_bytes(archive.read(member))


if __name__ == "__main__":
    sys.exit(main())

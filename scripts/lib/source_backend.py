# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What pip calls to build a source distribution (PEP 517): CMake, with the machine's own compiler and libraries.

    pip install gpumemshim-0.1.0.tar.gz        needs the Debian packages of scripts/requirements/debian.txt, says which are missing, and takes ten to twenty minutes

The wheel is for this machine (linux_x86_64): `scripts/package wheel` makes those for others. Nothing is installed with root's rights; headers of CUDA and
DuckDB are fetched as scripts/bootstrap does it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

if sys.version_info < (3, 11):
    raise SystemExit("gpumemshim: building from source needs Python 3.11 or newer; the wheel serves Python 3.9 too.")

import licences  # noqa: E402
import release  # noqa: E402
import sbom  # noqa: E402
import source_package  # noqa: E402
import wheel  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    """What it prints is shown: pip shows it where the command fails."""
    environment = {**os.environ, "GPUMEMSHIM_INTERPRETER": os.environ.get("GPUMEMSHIM_INTERPRETER") or sys.executable}
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, cwd=ROOT, env=environment)
    if done.returncode:
        raise SystemExit(f"gpumemshim: {' '.join(map(str, command[:3]))} failed; what is above says why.")


def platform():
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def build_sdist(sdist_directory, config_settings=None):
    return source_package.make(ROOT, pathlib.Path(sdist_directory)).name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    run("scripts/bootstrap", "--no-root")
    run("scripts/build", "release", "gpumem_package")
    with tempfile.TemporaryDirectory(prefix="gpumemshim-tree-") as scratch:
        tree = pathlib.Path(scratch) / "tree"
        run("cmake", "--install", "build/release", "--strip", "--prefix", tree)
        launcher = pathlib.Path(shutil.copy(ROOT / "build/release/bin/gpumemshim_launcher", scratch))
        run("strip", launcher)
        facts = wheel.Facts(ROOT / "python", platform(), launcher, sbom.made(release.version(ROOT), tree))
        return wheel.make(tree, facts, pathlib.Path(wheel_directory)).name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without a compiler: `pip download` and resolvers ask for it. Licences are those that a build finds."""
    project = wheel.read_project(ROOT / "python")
    folder = pathlib.Path(metadata_directory) / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(wheel.metadata(project, wheel.description(project, ROOT / "python"), licences.expression(), []), encoding="utf-8")
    (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: scripts/package\nRoot-Is-Purelib: false\nTag: py3-none-{platform()}\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text(wheel.entry_points(project), encoding="utf-8")
    return folder.name

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A Debian package made of an installed tree by CPack (packaging/deb/cpack.cmake).

    path = make(tree, ROOT, pathlib.Path("build/package"), "0.1.0")
"""

import gzip
import shutil
import subprocess


def as_debian_wants(tree, to):
    """A copy below `to`: manual pages gzipped, the licence where Debian looks for it, the package where Debian's Python does."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(tree, to, symlinks=True)
    for page in (to / "share/man/man1").iterdir():
        page.with_name(page.name + ".gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    (to / "share/doc/gpumemshim/LICENSE").rename(to / "share/doc/gpumemshim/copyright")
    packages = to / "lib/python3/dist-packages"
    packages.mkdir(parents=True)
    (packages / "gpumemshim").symlink_to("../../../share/gpumemshim/python/gpumemshim")


def make(tree, root, folder, version):
    """Raises RuntimeError with CPack's words."""
    as_debian_wants(tree, folder / "deb-tree")
    done = subprocess.run(["cpack", "--config", str(root / "packaging/deb/cpack.cmake"), "-D", f"CPACK_INSTALLED_DIRECTORIES={folder / 'deb-tree'};usr", "-D", f"CPACK_PACKAGE_VERSION={version}",
                           "-B", str(folder / "cpack")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    made = next((folder / "cpack").glob("*.deb"), None)
    if done.returncode or made is None:
        raise RuntimeError(f"cpack failed:\n{done.stdout[-2000:]}")
    path = folder / made.name
    made.replace(path)
    shutil.rmtree(folder / "cpack")
    shutil.rmtree(folder / "deb-tree")
    return path

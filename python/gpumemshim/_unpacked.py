# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs out of a zip file that the package is imported from: neither the kernel nor the loader reads one.

    folder = tree("app.pyz", "gpumemshim")     ~/.cache/gpumemshim/programs/0123456789abcdef; None where the file has only the package's sources

Unpacked once for each content, into a folder that nobody else can write to. Safe where several processes do it at once: a folder appears whole or not at all.
"""

import hashlib
import os
import pathlib
import shutil
import stat
import tempfile
import zipfile

from gpumemshim._error import GpumemError

FOLDERS = ("bin/", "lib/", "share/")
RECORDER = "lib/gpumemshim/libgpumemshim.so"
PROGRAMS = ("bin/gpumemshim", "share/gpumemshim/simcuda/run")  # a zip file may have lost that they can be started


def wanted(archive, package):
    """What is to be unpacked: entries by their path in the tree. The package may lie deeper in the file (shiv: site-packages)."""
    ends = [entry.filename for entry in archive.infolist() if entry.filename.endswith(f"{package}/{RECORDER}")]
    if not ends:
        return {}
    begin = min(ends, key=len)[: -len(RECORDER)]
    entries = {entry.filename[len(begin):]: entry for entry in archive.infolist() if entry.filename.startswith(begin) and not entry.is_dir()}
    return {name: entry for name, entry in entries.items() if name.startswith(FOLDERS)}


def cache():
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (pathlib.Path(home) if os.path.isabs(home) else pathlib.Path.home() / ".cache") / "gpumemshim" / "programs"


def is_ours(folder):
    """Nobody else but root can have put anything into it."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def unpack(archive, entries, folder):
    for name, entry in entries.items():
        if name.startswith("/") or ".." in name.split("/"):
            raise OSError(f"{entry.filename} is no path inside a folder")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, open(path, "wb") as target:  # its checksum is compared
            shutil.copyfileobj(source, target, 1 << 20)
        path.chmod(0o755 if name in PROGRAMS or entry.external_attr >> 16 & 0o111 else 0o644)


def made(archive, entries, home):
    key = hashlib.sha256("".join(f"{name} {entry.CRC} {entry.file_size}\n" for name, entry in sorted(entries.items())).encode()).hexdigest()[:16]
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_ours(home):
        raise PermissionError(f"{home} can be written by others")
    folder = home / key
    if not folder.is_dir():
        scratch = pathlib.Path(tempfile.mkdtemp(prefix=f".{key}-", dir=home))
        try:
            unpack(archive, entries, scratch)
            os.rename(scratch, folder)
        except OSError:
            if not folder.is_dir():  # another process was faster
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if not is_ours(folder):
        raise PermissionError(f"{folder} can be written by others")
    return folder


def tree(path, package):
    """The folder; None where the file has no programs. Raises GpumemError where they cannot be unpacked."""
    home = cache()
    try:
        with zipfile.ZipFile(path) as archive:
            entries = wanted(archive, package)
            return made(archive, entries, home) if entries else None
    except (OSError, zipfile.BadZipFile) as error:
        raise GpumemError(f"gpumemshim was imported from the zip file {path}, and its programs could not be unpacked into {home}: {error}. Name a folder that you can "
                          "write to by XDG_CACHE_HOME, or install the wheel beside the zip file and name its program by GPUMEMSHIM_PROGRAM.") from error

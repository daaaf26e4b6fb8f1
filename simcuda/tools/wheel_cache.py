# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Remember what a wheel lacks, by the identity (names, sizes, times) of its libraries and of ours.

One folder a pair under $XDG_CACHE_HOME/gpumemshim/simcuda (~/.cache): report.json, and the extra libraries. A cache that
cannot be written is not an error: reports are then made anew, and extra libraries lie in a fresh temporary folder.
"""
import glob
import hashlib
import json
import os
import tempfile


def identity(*folders):
    """A digest that changes when a library of one of the folders does."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.so*"))):
            stat = os.stat(path)
            digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:24]


def folder(key, environ=os.environ):
    home = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
    return os.path.join(home, "gpumemshim", "simcuda", key)


def load(place):
    try:
        with open(os.path.join(place, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        whole = all(os.path.exists(os.path.join(place, name)) for name in report["made"])
        return report if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(place, report):
    partial = os.path.join(place, f"report.json.{os.getpid()}")
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(report, file)
        os.replace(partial, os.path.join(place, "report.json"))
    except OSError:
        pass


def writable(place):
    """`place` if it can be made and written, else a new temporary folder."""
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return place
    except OSError:
        return tempfile.mkdtemp(prefix="gpumemshim-simcuda-")

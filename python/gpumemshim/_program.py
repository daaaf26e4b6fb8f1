# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The program `gpumemshim`, which answers everything that is asked about a trace: where it is, and how it is asked."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from gpumemshim import _installed, _library
from gpumemshim._error import GpumemError

ANSWERED = (0, 1, 4, 7)  # fine; a check failed; damaged, but answered in part; a check that the trace cannot answer


def candidates():
    """Where `gpumemshim` may lie, likeliest first."""
    if os.environ.get("GPUMEMSHIM_PROGRAM"):
        yield pathlib.Path(os.environ["GPUMEMSHIM_PROGRAM"])
        return
    here = pathlib.Path(__file__).resolve().parent
    yield from filter(None, (_installed.program(), here / "bin" / "gpumemshim", here / "gpumemshim"))
    library = _library.path()
    if library:
        folder = pathlib.Path(library).resolve().parent
        yield from (folder.parent / "bin" / "gpumemshim", folder / "gpumemshim", folder.parent.parent / "bin" / "gpumemshim")
    found = shutil.which("gpumemshim")
    if found:
        yield pathlib.Path(found)


def find():
    """The path of `gpumemshim`; GpumemError where there is none."""
    path = next((path for path in candidates() if os.access(path, os.X_OK) and path.is_file()), None)
    if path is None:
        raise GpumemError("gpumemshim is not on PATH. Put the folder of the built gpumemshim on PATH, or its path into GPUMEMSHIM_PROGRAM.")
    return str(path)


def environment():
    """Of the `gpumemshim` that is asked: it is not recorded itself."""
    return {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "GPUMEMSHIM_OUTPUT")}


def run(*arguments, text=True, query=""):
    """Runs gpumemshim with these arguments and `query` on standard input, unrecorded, and returns what it printed. GpumemError where it could not answer."""
    arguments = [os.fspath(each) if isinstance(each, os.PathLike) else str(each) for each in arguments]
    try:
        done = subprocess.run([find(), *arguments], input=query.encode("utf-8", "replace"), capture_output=True, env=environment(), check=False)
    except OSError as error:
        raise GpumemError(f"gpumemshim could not be started: {error}") from error
    if done.returncode not in ANSWERED:
        said = done.stderr.decode("utf-8", "replace").strip() or f"gpumemshim {arguments[0]} ended with {done.returncode} and no message"
        raise GpumemError(said, done.returncode)
    return done.stdout.decode("utf-8", "replace") if text else done.stdout


def ask(*arguments):
    """The answer of a command with --json, as it is documented in docs/json.md."""
    said = run(*arguments, "--json")
    try:
        return json.loads(said)
    except ValueError as error:
        raise GpumemError(f"gpumemshim {arguments[0]} printed no JSON: {said[:200]!r}") from error


def own_trace():
    """Path of this process's trace, with all that was recorded so far in it; None where nothing is recorded here, or nothing was yet."""
    if _library.find() is None:
        return None
    try:
        pid = str(os.getpid())
        run("ctl", pid, "flush")
        return ask("ctl", pid, "status").get("file") or None
    except GpumemError as error:
        if error.code is None:
            raise
        return None  # CUDA was not used so far


def main():
    """`python -m gpumemshim ...` is `gpumemshim ...`."""
    try:
        program = find()
    except GpumemError as error:
        print(error, file=sys.stderr)
        return 127
    os.execv(program, [program, *sys.argv[1:]])
    return 127

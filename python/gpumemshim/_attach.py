# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Recording that begins from inside, in a program that was started without the recorder."""

import ctypes
import os
import pathlib
import shutil

from gpumemshim import _installed, _library
from gpumemshim._annotations import mark, resume
from gpumemshim._error import GpumemError

NAME = "libgpumemshim.so"
NOT_FOUND = f"{NAME} was not found. Put the folder of gpumemshim on PATH, or the library's path into GPUMEMSHIM_LIBRARY."


def candidates():
    """Where the recorder may lie, likeliest first."""
    if os.environ.get("GPUMEMSHIM_LIBRARY"):
        yield pathlib.Path(os.environ["GPUMEMSHIM_LIBRARY"])
        return
    here = pathlib.Path(__file__).resolve().parent
    yield from filter(None, (_installed.recorder(), here / NAME))
    program = os.environ.get("GPUMEMSHIM_PROGRAM") or shutil.which("gpumemshim")
    if program:
        folder = pathlib.Path(program).resolve().parent
        yield from (folder.parent / "lib" / NAME, folder / NAME, folder.parent / "lib" / "gpumemshim" / NAME)


def attach(output=None):
    """Loads the recorder into this process and records from now on, as `gpumemshim attach` does from outside. Returns whether it records.

        gpumemshim.attach("leak.gmtrace")
        ...
        gpumemshim.pause()

    output: path of the trace; default as `gpumemshim run`. What PyTorch's allocator holds at this moment is known from its own snapshot, without stacks.
    Where the recorder is loaded already this is resume(), and the file stays. The library is that of GPUMEMSHIM_LIBRARY, else what was installed with this
    package, else of the `gpumemshim` on PATH; without it this returns False.
    """
    library = _library.find()
    if library is None:
        try:
            path = next((path for path in candidates() if path.is_file()), None)
        except GpumemError:  # it lies in a zip file, and cannot be unpacked
            return False
        if path is None:
            return False
        try:
            loaded = ctypes.CDLL(str(path))
            begin = loaded.gpumemshim_attach_v1
        except (OSError, AttributeError):  # another system's; an older one
            return False
        settings = "GPUMEMSHIM_QUIET=1\n"
        if output is not None:
            settings += f"GPUMEMSHIM_OUTPUT={pathlib.Path(output).absolute()}\n"
        begin.argtypes = (ctypes.c_char_p,)
        begin(_library.text(settings))
        library = _library.use(loaded)
        return library is not None and library.recording() != 0
    library.resume()
    return library.recording() != 0


def begin(output=None):
    """Records this process from now on, whether the recorder is loaded, paused, or to be loaded yet. Returns whether that began here, so that whoever asked
    for it ends it; GpumemError where there is no recorder. CUDA need not be in use: a preloaded recorder that waits for it was begun by whoever preloaded it.
    """
    before = _library.find()
    was_recording = before is not None and before.recording() != 0
    if before is None:
        attach(output)
    elif not was_recording:
        resume()
    library = _library.find()
    if library is None:
        raise GpumemError(NOT_FOUND)
    waits = before is not None and library.recording() == 0 and os.environ.get("GPUMEMSHIM_START") != "off"
    return not was_recording and not waits


def mark_moment(text, of):
    """Marks this moment and returns the text that gpumemshim finds it by; "" where nothing is recorded so far, as before CUDA is used in a program that was
    started under the recorder: the moment is the trace's beginning then."""
    library = _library.find()
    if library is None or library.recording() == 0:
        return ""
    mark(text, of=of)
    return text

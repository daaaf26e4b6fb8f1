# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The recorder's table of functions (include/gpumemshim.h), looked up once, at the first call of find().

    library = find()                        # None where it is not loaded
    if library is not None:
        library.mark(text("epoch done"))
"""

import ctypes

# In the order of struct gpumemshim_api: name, whether it is quick (called with the GIL held), result, arguments.
FUNCTIONS = (
    ("recording", True, ctypes.c_int, ()),
    ("mark", True, None, (ctypes.c_char_p,)),
    ("stage_push", True, None, (ctypes.c_char_p,)),
    ("stage_pop", True, None, ()),
    ("step", True, None, (ctypes.c_uint64,)),
    ("tag", True, None, (ctypes.c_char_p,)),
    ("pause", False, None, ()),
    ("resume", False, None, ()),
    ("snapshot", True, None, (ctypes.c_char_p,)),
    ("name", True, None, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)),
    ("read", True, None, (ctypes.c_void_p, ctypes.c_size_t)),
)


class Table(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("size", ctypes.c_uint32)] + [(name, ctypes.c_void_p) for name, _, _, _ in FUNCTIONS]


class Library:
    """The functions as attributes; what an older library has not does nothing."""

    def __init__(self, table):
        for name, is_quick, result, arguments in FUNCTIONS:
            field = getattr(Table, name)
            address = getattr(table, name) if table.size >= field.offset + field.size else None
            kind = ctypes.PYFUNCTYPE if is_quick else ctypes.CFUNCTYPE
            setattr(self, name, kind(result, *arguments)(address) if address else nothing)
        if self.snapshot is nothing:
            self.snapshot = self.mark


def nothing(*_):
    return 0


def look_up(loaded=None):
    """In the whole process, or in one library."""
    try:
        get = (loaded or ctypes.CDLL(None)).gpumemshim_get_api_v1
        get.restype = ctypes.POINTER(Table)
        table = get()
        return Library(table.contents) if table else None
    except (AttributeError, OSError, TypeError):  # not loaded; no such thing on this system
        return None


_found = ()  # or (Library or None,)


def find():
    global _found
    if not _found:
        _found = (look_up(),)
    return _found[0]


def use(loaded):
    """From now on the functions of this library, which the process loaded late."""
    global _found
    _found = (look_up(loaded),)
    return _found[0]


def text(value):
    """As the library takes it: UTF-8 up to the first NUL, of which there is none then."""
    return str(value).encode("utf-8", "replace").replace(b"\0", b"\xef\xbf\xbd")


def path():
    """Path of the loaded library; "" where it is not loaded."""
    if find() is None:
        return ""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            return next((line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.rstrip("\n").endswith("/libgpumemshim.so")), "")
    except OSError:
        return ""

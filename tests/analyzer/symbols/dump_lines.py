# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Prints the line tables of real functions and what the interpreter itself says of them.

One line a code object: minor version, first line, line table in hex, then offset:line of every instruction (0 = no line). Runs on CPython 3.9
and newer. The interpreter's own PyCode_Addr2Line answers; where ctypes is missing, co_lines() or, before 3.10, dis.
"""
import dis
import importlib.util
import sys
import types

try:
    import ctypes
    ADDRESS_TO_LINE = ctypes.pythonapi.PyCode_Addr2Line
    ADDRESS_TO_LINE.argtypes = [ctypes.py_object, ctypes.c_int]
    ADDRESS_TO_LINE.restype = ctypes.c_int
except (ImportError, AttributeError):
    ADDRESS_TO_LINE = None

MODULES = ("argparse ast asyncio.base_events collections contextlib dataclasses datetime decimal difflib email.message enum functools "
           "http.client inspect json.decoder logging pathlib pickle random shutil socket statistics subprocess tarfile tempfile "
           "threading tokenize traceback typing unittest.mock urllib.request xml.dom.minidom zipfile").split()


def walk(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from walk(constant)


def lines_without_ctypes(code):
    lines = {}
    if sys.version_info >= (3, 10):
        for start, end, line in code.co_lines():
            for offset in range(start, end, 2):
                lines[offset] = line or 0
        return lines
    starts, line = dict(dis.findlinestarts(code)), code.co_firstlineno
    for offset in range(0, len(code.co_code), 2):
        line = starts.get(offset, line)
        lines[offset] = line
    return lines


def lines_of(code):
    if ADDRESS_TO_LINE is None:
        return lines_without_ctypes(code)
    lines = {offset: max(ADDRESS_TO_LINE(code, offset), 0) for offset in range(0, len(code.co_code), 2)}
    assert lines == lines_without_ctypes(code), code
    return lines


def main():
    for name in MODULES:
        try:
            source = importlib.util.find_spec(name).origin
            with open(source, "rb") as file:
                module = compile(file.read(), source, "exec")
        except (ImportError, OSError, AttributeError):
            continue
        for code in walk(module):
            table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
            print(sys.version_info[1], code.co_firstlineno, table.hex() or "-",
                  " ".join("%d:%d" % item for item in sorted(lines_of(code).items())))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Prints the line tables of real functions and what the interpreter itself says of them.

One line a code object: minor version, first line, line table in hex, then offset:line of every instruction (0 = no line).
"""
import importlib
import sys
import types

MODULES = ("argparse ast asyncio.base_events collections contextlib dataclasses datetime decimal difflib email.message enum functools "
           "http.client inspect json.decoder logging pathlib pickle random shutil socket statistics subprocess tarfile tempfile "
           "threading tokenize traceback typing unittest.mock urllib.request xml.dom.minidom zipfile").split()


def walk(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from walk(constant)


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
            lines = {}
            if sys.version_info >= (3, 10):
                for start, end, line in code.co_lines():
                    for offset in range(start, end, 2):
                        lines[offset] = line or 0
            if sys.version_info >= (3, 11):
                for index, position in enumerate(code.co_positions()):
                    assert lines[2 * index] == (position[0] or 0)
            print(sys.version_info[1], code.co_firstlineno, table.hex() or "-",
                  " ".join("%d:%d" % item for item in sorted(lines.items())))


if __name__ == "__main__":
    import importlib.util
    main()

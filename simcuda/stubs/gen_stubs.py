#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Turn one table of tables/ into C stubs and a linker version script.

  gen_stubs.py tables/libcufft.so.12.txt stubs.c stubs.map

The table's language is described in README.md beside this file. Python's standard library only, deterministic output;
a line that cannot be understood ends the build with its number.
"""
import os
import re
import sys
from dataclasses import dataclass, field

# What a parameter is in C. Floating-point ones must be told apart: they travel in other registers.
C_TYPES = {"ptr": "void*", "int": "int", "long": "long", "float": "float", "double": "double"}
# Parameters that a stub writes through: keyword -> C type of the pointee.
OUT_TYPES = {"int*": "int", "uint*": "unsigned", "long*": "long", "float*": "float", "double*": "double",
             "ptr*": "void*"}
RETURNS = {"status": "int", "int": "int", "long": "long", "ptr": "void*", "char*": "const char*", "void": "void"}


class TableError(Exception):
    """A line of a table that breaks its language."""


@dataclass
class Function:
    name: str
    args: list  # of (keyword, value or None)
    ret: str = "status"
    value: str = "0"
    bound: str = ""  # of its workspace, in C; empty: none is known


@dataclass
class Table:
    soname: str = ""
    node: str = ""  # version node of the symbols; empty: unversioned
    status: str = "0"  # what a function of no other word returns
    library: str = ""  # its name in the table of workspaces
    settings: dict = field(default_factory=dict)  # name -> environment variable
    functions: list = field(default_factory=list)


def expand(name):
    """cublas{S,D}gemm -> cublasSgemm, cublasDgemm; several groups multiply."""
    match = re.search(r"\{([^{}]*)\}", name)
    if not match:
        return [name]
    head, tail = name[: match.start()], name[match.end():]
    return [full for choice in match[1].split(",") for full in expand(head + choice + tail)]


def parse_args(text):
    text = text.strip()
    if text in ("", "..."):
        return []
    args = []
    for word in text.split():
        keyword, _, value = word.partition("=")
        if keyword in OUT_TYPES and value == "" or keyword not in {**C_TYPES, **OUT_TYPES, "new": 0, "del": 0}:
            known = ", ".join([*C_TYPES, *(f"{out}=VALUE" for out in OUT_TYPES), "new", "del"])
            raise TableError(f"parameter '{word}' is none of {known}")
        args.append((keyword, value or None))
    return args


def parse_line(line, table, path):
    keyword, _, rest = line.partition(" ")
    if keyword in ("soname", "node", "status", "library"):
        setattr(table, keyword, rest.strip())
        return
    if keyword == "like":  # the functions and settings of another table
        other = parse(os.path.join(os.path.dirname(path), rest.strip() + ".txt"))
        table.functions += other.functions
        table.settings.update(other.settings)
        table.status, table.library = other.status, other.library
        return
    if keyword == "setting":
        name, variable = rest.split()
        table.settings[name] = variable
        return
    line, _, bound = (part.strip() for part in line.partition("<="))
    match = re.fullmatch(r"([\w{},]+)\s*(?:\((.*?)\))?\s*(?:->\s*(\S+)(?:\s+(.+))?)?", line)
    if not match:
        raise TableError("neither a keyword nor NAME (PARAMETERS) -> RETURN")
    names, args, ret, value = match.groups()
    if ret and ret not in RETURNS:
        raise TableError(f"return '{ret}' is none of {', '.join(RETURNS)}")
    for name in expand(names):
        table.functions.append(Function(name, parse_args(args or ""), ret or "status", value or ("0" if ret else ""), bound))


def parse(path):
    table = Table()
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            try:
                parse_line(line, table, path)
            except (TableError, ValueError) as error:
                raise SystemExit(f"{path}:{number}: {error}: {line}") from None
    names = [f.name for f in table.functions]
    twice = {n for n in names if names.count(n) > 1}
    if not table.soname or twice:
        raise SystemExit(f"{path}: " + (f"named twice: {', '.join(sorted(twice))}" if twice else "no soname"))
    return table


def unit_of(function, text):
    """Bytes of one of what a size counts: elements of the type that stands in a name like cusolverDnSpotrf, else bytes."""
    if text != "elements":
        return 1
    letter = re.match(r"cusolverDn([SDCZ])", function.name)
    if not letter:
        raise SystemExit(f"{function.name}: counts elements, and its name has no type")
    return {"S": 4, "D": 8, "C": 8, "Z": 16}[letter[1]]


def bound_of(function):
    """A bound of the table in C: $2 is the third parameter, bytes($3) the size of its cudaDataType."""
    text = re.sub(r"\bbytes\(", "stub_type_bytes(", function.bound)
    return re.sub(r"\$(\d+)", r"(uint64_t)a\1", text.replace("stub_type_bytes($", "stub_type_bytes(a")) or "SIMCUDA_NO_BOUND"


def value_of(text, function, table):
    """A number as written, or a setting's name: what its environment variable or the table of workspaces says."""
    if text not in table.settings:
        return text
    variable, unit = table.settings[text], unit_of(function, text)
    numbers = [f"a{i}" for i, (keyword, _) in enumerate(function.args) if keyword in ("int", "long")]
    asked = f'"{variable}", "{table.library}", "{function.name}", (const long[]){{{", ".join(numbers) or "0"}}}, {len(numbers)}, {bound_of(function)}'
    return f"(long)stub_sized({asked})" if unit == 1 else f"stub_elements({asked}, {unit})"


def body_of(function, table):
    lines = [f'  static int called;', f'  if (!called) {{ called = 1; stub_note("{function.name}"); }}']
    for index, (keyword, value) in enumerate(function.args):
        if keyword == "new":
            lines.append(f"  if (a{index}) *(void**)a{index} = stub_handle();")
        elif keyword == "del":
            lines.append(f"  stub_release(a{index});")
        elif keyword in OUT_TYPES:
            target = OUT_TYPES[keyword]
            lines.append(f"  if (a{index}) *({target}*)a{index} = ({target}){value_of(value, function, table)};")
        else:
            lines.append(f"  (void)a{index};")
    if function.ret != "void":
        value = function.value if function.ret != "status" else table.status
        lines.append(f"  return ({RETURNS[function.ret]}){value};")
    return lines


def write_c(table, path, name):
    out = [f"/* Generated from {name} by gen_stubs.py. */", '#include "stub.h"', ""]
    for function in table.functions:
        params = ", ".join(f"{C_TYPES.get(k, 'void*')} a{i}" for i, (k, _) in enumerate(function.args)) or "void"
        result = RETURNS[function.ret]
        head = f"STUB_API {result} {function.name}({params})"
        out += [f"{head};", f"{head} {{", *body_of(function, table), "}", ""]
    with open(path, "w", encoding="utf-8") as target:
        target.write("\n".join(out))


def main(argv):
    if len(argv) != 4:
        raise SystemExit(__doc__)
    table = parse(argv[1])
    write_c(table, argv[2], argv[1].rsplit("/", 1)[-1])
    with open(argv[3], "w", encoding="utf-8") as target:
        target.write(f"{table.node + ' ' if table.node else ''}{{ global: *; local: _Z*; stub_*; }};\n")


if __name__ == "__main__":
    main(sys.argv)

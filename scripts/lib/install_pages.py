#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Writes manual pages, completions and licences below a prefix, for `cmake --install`. What cannot be made is left out, and a line says so; --strict
makes that an error.

    scripts/lib/install_pages.py --gpumem build/release/bin/gpumemshim --version 0.1.0 PREFIX
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import completions  # noqa: E402
import licences  # noqa: E402
import man_pages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumem", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--duckdb", type=pathlib.Path, default=ROOT / ".deps/duckdb/libduckdb.so", help="the library; its licence lies beside it")
    parser.add_argument("--static-elfutils", action="store_true")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("prefix", type=pathlib.Path)
    arguments = parser.parse_args()
    share = arguments.prefix / "share"
    commands = completions.read(arguments.gpumem)
    write(share / "bash-completion/completions", {"gpumemshim": completions.bash(commands)})
    write(share / "zsh/site-functions", {"_gpumemshim": completions.zsh(commands)})
    write(share / "fish/vendor_completions.d", {"gpumemshim.fish": completions.fish(commands)})
    problems = []
    pages = man_pages.made(ROOT / "docs/commands", {command.name: command.about for command in commands}, arguments.version)
    if pages:
        write(share / "man/man1", pages)
    else:
        problems.append("no manual pages: go-md2man is not installed (Debian: apt-get install go-md2man)")
    texts, absent = licences.collected(arguments.duckdb.parent / "LICENSE", "statically" if arguments.static_elfutils else "dynamically")
    write(share / "doc/gpumemshim/licences", texts)
    if absent:
        problems.append(f"no licence texts of {', '.join(absent)}: /usr/share/doc has no copyright file of them")
    for problem in problems:
        print(f"install_pages: {problem}")
    return 1 if problems and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())

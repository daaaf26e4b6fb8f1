#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Writes what libcudart has beside the hand-written functions: stubs, per-thread-stream forwarders, error names.

usage: runtime.py COMPILER INCLUDE SOURCES OUT
"""

import re
import sys
from pathlib import Path

from headers import BANNER, enumerators, hand_written, name_table, preprocess, prototypes, write_if_changed

NAMES = r"(?:__)?cuda[A-Z]\w*"
RESULTS = r"cudaError_t|const\s+char\s*\*|struct\s+cudaChannelFormatDesc|cudaChannelFormatDesc|void\s*\*\*|void|char|unsigned"


def arguments(prototype) -> str:
    passed = []
    for i, parameter in enumerate(prototype.parameters):
        is_stream = parameter.type == "cudaStream_t"
        passed.append(f"a{i} != nullptr ? a{i} : cudaStreamPerThread" if is_stream else f"a{i}")
    return ", ".join(passed)


def body(name, known, written) -> str:
    plain = re.sub(r"_pt[sd][sz]$", "", name)
    if plain != name and plain in written and plain in known:
        return f"return {plain}({arguments(known[name])});"
    return ("static std::atomic<bool> said{false}; "
            f'simcuda::NoteUnsupported("libcudart", "{name}", &said); '
            "return simcuda::Fail(cudaErrorNotSupported);")


def stubs(known, written) -> str:
    parts = [BANNER, '#include "simcuda/base/note.h"\n#include "simcuda/runtime/runtime.h"\n\nextern "C" {\n']
    for name in sorted(known.keys() - written):
        if known[name].result == "cudaError_t":
            parts.append(f"{known[name].declaration()} {{ {body(name, known, written)} }}\n")
    parts.append('}  // extern "C"\n')
    return "".join(parts)


def main():
    compiler, include, sources, out = sys.argv[1:5]
    text = preprocess(compiler, include, "cuda_runtime_api.h")
    known = prototypes(text, "cudaError_t", NAMES)
    written = hand_written(Path(sources), RESULTS, NAMES)
    error_enum = text[text.index("enum cudaError"):]
    names = enumerators(error_enum[: error_enum.index("}")], "cuda")
    table = f"""{BANNER}#include "simcuda/runtime/runtime.h"

namespace simcuda {{

{name_table(names, "ErrorName", "cudaError_t")}
}}  // namespace simcuda
"""
    write_if_changed(Path(out) / "runtime_stubs.cc", stubs(known, written))
    write_if_changed(Path(out) / "runtime_tables.cc", table)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Writes what libcuda has beside the hand-written functions: stubs, forwarders, the cuGetProcAddress table.

usage: driver.py COMPILER INCLUDE SOURCES OUT
"""

import re
import sys
from pathlib import Path

from headers import (BANNER, Prototype, enumerators, hand_written, name_table, preprocess, prototypes,
                     write_if_changed)

NAMES = r"cu[A-Z]\w*"
# cudaProfiler.h is not among the headers of the small wheels; these two are all that it declares today.
PROFILER = [("cuProfilerStart", 4000, False, "cuProfilerStart"), ("cuProfilerStop", 4000, False, "cuProfilerStop")]


def older_forms(name: str, known: dict[str, Prototype]) -> list[str]:
    """The newer versions of a function, newest first: cuEventDestroy -> [cuEventDestroy_v2]."""
    base = re.sub(r"_v\d+$", "", name)
    newer = [n for n in known if re.fullmatch(rf"{base}_v\d+", n) and n > name]
    return sorted(newer, reverse=True)


def forward_target(name: str, known: dict[str, Prototype], written: set[str]) -> str | None:
    """The hand-written function that does what `name` does, if there is one."""
    suffix = re.search(r"_pt[sd][sz]$", name)
    if suffix:
        plain = name[: suffix.start()]
        if plain in written:
            return plain
        return forward_target(plain, known, written) if plain in known else None
    for newer in older_forms(name, known):
        if newer in written and known[newer].types == known[name].types:
            return newer
    return None


def arguments(prototype: Prototype) -> str:
    """The arguments to pass on; stream 0 of a per-thread form is the thread's own stream."""
    per_thread = re.search(r"_pt[sd][sz]$", prototype.name)
    passed = []
    for i, parameter in enumerate(prototype.parameters):
        is_stream = per_thread and parameter.type == "CUstream"
        passed.append(f"a{i} != nullptr ? a{i} : CU_STREAM_PER_THREAD" if is_stream else f"a{i}")
    return ", ".join(passed)


def stubs(known: dict[str, Prototype], written: set[str]) -> str:
    parts = [BANNER, '#include "simcuda/base/note.h"\n#include "simcuda/driver/driver.h"\n\nextern "C" {\n']
    for name in sorted(known.keys() - written):
        prototype = known[name]
        target = forward_target(name, known, written)
        if target:
            body = f"return {target}({arguments(prototype)});"
        else:
            body = ("static std::atomic<bool> said{false}; "
                    f'simcuda::NoteUnsupported("libcuda", "{name}", &said); return CUDA_ERROR_NOT_SUPPORTED;')
        parts.append(f"{prototype.declaration()} {{ {body} }}\n")
    parts.append('}  // extern "C"\n')
    return "".join(parts)


def entry_points(typedefs: str, known: dict[str, Prototype]) -> list[tuple[str, int, bool, str]]:
    """(base name, version, per-thread, export) by matching the sorted PFN_ typedefs with name, name_v2, name_v3 ..."""
    versions: dict[tuple[str, str], list[int]] = {}
    for base, version, suffix in re.findall(r"\bPFN_(cu[A-Z]\w*?)_v(\d+)(_ptsz|_ptds)?\)", typedefs):
        versions.setdefault((base, suffix), []).append(int(version))
    rows = []
    for (base, suffix), numbers in sorted(versions.items()):
        exports = [n for n in known if re.fullmatch(rf"{base}(_v\d+)?{suffix}", n)]
        exports.sort(key=lambda n: int((re.search(r"_v(\d+)", n) or [0, 1])[1]))
        numbers = sorted(set(numbers))
        # Where the oldest form was never public, the newest exports are the ones that the typedefs describe.
        for number, export in zip(reversed(numbers), reversed(exports)):
            rows.append((base, number, suffix != "", export))
    return sorted(rows)


def tables(rows, names: list[str]) -> str:
    lines = "\n".join(f'    {{"{base}", {version}, {str(per_thread).lower()}, reinterpret_cast<void*>(&{export})}},'
                      for base, version, per_thread, export in rows)
    return f"""{BANNER}#include "simcuda/driver/driver.h"

extern "C" {{
CUresult cuProfilerStart();
CUresult cuProfilerStop();
}}

namespace simcuda {{

const EntryPoint kEntryPoints[] = {{
{lines}
}};
const size_t kEntryPointCount = sizeof kEntryPoints / sizeof *kEntryPoints;

{name_table(names, "ResultName", "CUresult")}
}}  // namespace simcuda
"""


def main():
    compiler, include, sources, out = sys.argv[1:5]
    text = preprocess(compiler, include, "cuda.h")
    typedefs = preprocess(compiler, include, "cudaTypedefs.h")
    known = prototypes(text, "CUresult", NAMES)
    written = hand_written(Path(sources), "CUresult", NAMES)
    result_enum = text[text.index("typedef enum cudaError_enum"):]
    result_enum = result_enum[: result_enum.index("}")]
    names = enumerators(result_enum, "CUDA_")
    write_if_changed(Path(out) / "driver_stubs.cc", stubs(known, written))
    write_if_changed(Path(out) / "driver_tables.cc", tables(sorted(entry_points(typedefs, known) + PROFILER), names))


if __name__ == "__main__":
    main()

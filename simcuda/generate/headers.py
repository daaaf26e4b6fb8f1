# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Reads declarations off NVIDIA's public headers, for driver.py and runtime.py."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

BANNER = """// Generated from NVIDIA's public headers by simcuda/generate. Not to be edited.
// SPDX-License-Identifier: Apache-2.0
"""


@dataclass(frozen=True)
class Parameter:
    type: str
    name: str  # "" where the prototype names none


@dataclass(frozen=True)
class Prototype:
    result: str
    name: str
    parameters: tuple[Parameter, ...]

    @property
    def types(self):
        return tuple(p.type for p in self.parameters)

    def declaration(self):
        """The C declaration with parameters named a0, a1, ..."""
        arguments = ", ".join(f"{p.type} a{i}" for i, p in enumerate(self.parameters))
        return f"{self.result} {self.name}({arguments})"


def preprocess(compiler: str, include: str, header: str) -> str:
    """The header with every version of every function declared, comments and macros gone. `include`: folders, by colons."""
    source = f"#define __CUDA_API_VERSION_INTERNAL\n#include <{header}>\n"
    command = [compiler, "-E", "-P", "-x", "c++", *(f"-I{folder}" for folder in include.split(":")), "-"]
    text = subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout
    return re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text)


def parse_parameters(text: str) -> tuple[Parameter, ...]:
    text = re.sub(r"\s+", " ", text).strip()
    if text in ("", "void"):
        return ()
    parameters = []
    for part in text.split(","):
        part = re.sub(r"\s*=.*$", "", part).strip()  # a default argument
        match = re.fullmatch(r"(.*?[\s*&])([A-Za-z_]\w*)?(\[\d*\])?", part)
        words = part.replace("*", " * ").split()
        if match and match[2] and match[2] not in ("int", "char", "long") and len(words) > 1:
            kind = match[1].strip() + ("*" if match[3] else "")
            parameters.append(Parameter(kind, match[2]))
        else:
            parameters.append(Parameter(part, ""))
    return tuple(parameters)


def prototypes(text: str, results: str, names: str) -> dict[str, Prototype]:
    """All prototypes whose result and name match the patterns, by name."""
    found = {}
    pattern = rf"\b({results})\s*\b({names})\s*\(([^(){{}};]*)\)\s*;"
    for result, name, parameters in re.findall(pattern, text):
        found.setdefault(name, Prototype(re.sub(r"\s+", " ", result).strip(), name, parse_parameters(parameters)))
    return found


def hand_written(folder: Path, results: str, names: str) -> set[str]:
    """Names of the C functions defined at the beginning of a line in the folder's sources."""
    pattern = re.compile(rf"^(?:{results})\s*\b({names})\(", re.MULTILINE)
    return {name for source in sorted(folder.glob("*.cc")) for name in pattern.findall(source.read_text())}


def enumerators(text: str, prefix: str) -> list[str]:
    """Enumerators with the prefix, in order, each once."""
    return list(dict.fromkeys(re.findall(rf"\b({prefix}\w*)\s*=\s*\d+", text)))


def name_table(enumerators_: list[str], function: str, parameter: str) -> str:
    cases = "\n".join(f'    case {name}:\n      return "{name}";' for name in enumerators_)
    return f"""const char* {function}({parameter} value) {{
  switch (value) {{
{cases}
    default:
      return nullptr;
  }}
}}
"""


def write_if_changed(path: Path, text: str):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)

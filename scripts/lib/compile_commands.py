# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The commands of a build tree's compile_commands.json, one for each source: where ten are compiled as one (CMAKE_UNITY_BUILD), each as if alone.

    for entry in compile_commands.read(pathlib.Path("build/release/compile_commands.json")):
        entry["file"], entry["directory"], entry["command"]
"""

import json
import pathlib
import re

INCLUDED = re.compile(r'^#include "(.+)"$', re.M)


def read(database):
    """The entries; a source that several programs are made of comes several times."""
    for entry in json.loads(database.read_text()):
        unit = pathlib.Path(entry["directory"], entry["file"])
        if unit.parent.name != "Unity":
            yield entry
            continue
        for source in INCLUDED.findall(unit.read_text()):
            yield {**entry, "file": source, "command": entry["command"].replace(f" -c {entry['file']}", f" -c {source}")}

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Instructions by source file and shared object, from a run under valgrind's callgrind."""

import collections
import os
import re

import processes

HOOK = "*RecordReport*"  # entered once an event: the function that it stands in has PyTorch's own of the same name behind it
NAME = re.compile(r"^(ob|fl|fi|fe|fn)=\((\d+)\)(?: (.*))?$")


def read(path):
    """Self instructions of a callgrind file: {(object, source file): instructions}. What a call cost its callee is left out."""
    names = {"ob": {}, "file": {}, "fn": {}}
    place = {"ob": "", "file": ""}
    counts = collections.Counter()
    skip = False
    for line in open(path, encoding="utf-8", errors="replace"):
        line = line.rstrip("\n")
        named = NAME.match(line)
        if named:
            kind = "file" if named[1] in ("fl", "fi", "fe") else named[1]
            if named[3] is not None:
                names[kind][named[2]] = named[3]
            if kind != "fn":
                place[kind] = names[kind].get(named[2], "")
        elif line.startswith(("cob=", "cfi=", "cfl=", "cfn=")):
            compressed = re.match(r"^c(ob|fi|fl|fn)=\((\d+)\)(?: (.*))?$", line)
            if compressed and compressed[3] is not None:
                kind = "file" if compressed[1] in ("fi", "fl") else compressed[1]
                names[kind][compressed[2]] = compressed[3]
        elif line.startswith("calls="):
            skip = True
        elif line[:1].isdigit() or line[:1] in "+-*":
            parts = line.split()
            if not skip and len(parts) >= 2:
                counts[place["ob"], place["file"]] += int(parts[1])
            skip = False
    return counts


def start(command, environment, output, *options):
    """Runs the command under callgrind. The preloads are not valgrind's."""
    shown = processes.run([processes.ROOT / "simcuda" / "run", "--print", *command], environment)
    exported = dict(line[len("export ") :].split("=", 1) for line in shown.splitlines() if line.startswith("export "))
    inner = dict(environment, **exported)
    preload = inner.pop("LD_PRELOAD")
    valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={output}.%p", *options]
    processes.run([*valgrind, "env", f"LD_PRELOAD={preload}", *command], inner, timeout_s=1800)


def run(command, environment, output):
    """Instructions inside of the recorder's hook, as `read` gives them."""
    start(command, environment, output, f"--toggle-collect={HOOK}")
    total = collections.Counter()
    folder, base = os.path.split(str(output))
    for name in os.listdir(folder):
        if re.fullmatch(re.escape(base) + r"\.\d+", name):
            total += read(os.path.join(folder, name))
    return total


def run_whole(command, environment, output):
    """All instructions of a command: of the writer's thread, of the recorder in the program's own threads, and of everything else there."""
    start(command, environment, output, "--separate-threads=yes")
    parts = collections.Counter()
    folder, base = os.path.split(str(output))
    for name in os.listdir(folder):
        if not re.fullmatch(re.escape(base) + r"\.\d+-\d+", name):
            continue
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8", errors="replace") as file:
            is_writer = "gpumemshim::writer::Session::FillBatch" in file.read()
        for (binary, _), instructions in read(path).items():
            parts["writer" if is_writer else "recorder" if "libgpumemshim" in binary else "program"] += instructions
    return parts

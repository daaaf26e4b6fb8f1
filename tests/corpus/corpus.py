# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The corpus: twelve small programs, one for each kind of trace, recorded once a build. Tests of answers read it instead of recording programs of their own.

    python tests/corpus/corpus.py --build build/release        records what is not in build/release/corpus yet

A trace that is there is kept: it is recorded anew when the recorder or the program is newer. Standard library only.
"""

import dataclasses
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import truth  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Program:
    """`words`: the program, below tests/e2e/programs unless it begins with examples/, and its arguments."""

    words: tuple
    environment: dict = dataclasses.field(default_factory=dict)
    devices: int = 1
    fails: bool = False  # ends with an error of its own, which is what it is for


CORPUS = {
    "gpt": Program(("gpt.py",)),
    "conv": Program(("conv.py",)),
    "lora": Program(("lora.py",)),
    "expandable": Program(("gpt.py",), {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "malloc_async": Program(("gpt.py",), {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "graphs": Program(("graphs.py",)),
    "oom": Program(("examples/oom.py",), fails=True),
    "oom_caught": Program(("oom_caught.py",)),
    "leak": Program(("examples/leak.py",)),
    "fragmented": Program(("fragmented.py",)),
    "two_devices": Program(("two_devices.py",), devices=2),
    "serving": Program(("serving.py", "all")),
}


def path_of(program):
    return (ROOT if program.words[0].startswith("examples/") else truth.PROGRAMS) / program.words[0]


def is_fresh(trace, setup, program):
    if not trace.exists():
        return False
    return trace.stat().st_mtime > max(path.stat().st_mtime for path in (path_of(program), setup.build / "lib" / "libgpumemshim.so"))


def record(name, setup):
    """The trace's path. Raises truth.Failure where the program does not end as it should."""
    program, folder = CORPUS[name], setup.build / "corpus"
    folder.mkdir(exist_ok=True)
    trace = folder / f"{name}.gmtrace"
    if is_fresh(trace, setup, program):
        return trace
    command = [*setup.command(path_of(program)), *program.words[1:]]
    environment = truth.environment_of(truth.Case("none", program.environment, devices=program.devices), setup)
    try:
        truth.run(setup.recording(trace, *command), setup, environment)
    except truth.Failure:
        if not program.fails:
            raise
    if not trace.exists():
        raise truth.Failure(f"{name}: {path_of(program)} allocated nothing")
    return trace


def main():
    setup, _, _ = truth.setup_of_tests()
    for name in CORPUS:
        print(f"  {record(name, setup)}", flush=True)


if __name__ == "__main__":
    main()

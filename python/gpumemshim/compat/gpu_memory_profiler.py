# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The command lines of the Opacus memory profilers, which scan sequence lengths, batch sizes and LoRA ranks: `gpumemshim sweep --opacus-scan` with their options.

    python -m gpumemshim.compat.gpu_memory_profiler --seq_lengths 128 256 --batch_sizes 8 16 --results_dir ./memory_results [-- COMMAND ...]
    python -m gpumemshim.compat.detailed_memory_profiler --seq_lengths 128 256 --batch_sizes 8 16 --results_dir ./detailed_results [-- COMMAND ...]

The second also prints what each component holds at the peak. Exit codes are those of sweep; 127 where gpumemshim is missing.
"""

import json
import pathlib
import subprocess
import sys

from gpumemshim import _program
from gpumemshim._error import GpumemError
from gpumemshim.compat._cuda import GB


def scan(words, default_folder):
    """Runs the sweep. Returns (its exit code, the folder of its results)."""
    own = words[: words.index("--")] if "--" in words else words
    flags = [word.partition("=")[0] for word in own]
    given = {"--results_dir", "--results-dir"} & set(flags)
    if not given:
        words = ["--results_dir", default_folder, *words]
        folder = default_folder
    else:
        at = max(flags.index(flag) for flag in given)
        folder = own[at].partition("=")[2] or (own[at + 1] if at + 1 < len(own) else default_folder)
    sys.stdout.flush()
    code = subprocess.run([_program.find(), "sweep", "--opacus-scan", *words], env=_program.environment(), check=False).returncode
    return code, pathlib.Path(folder)


def print_components(folder):
    """What each component holds at the peak of each configuration that ran; components that hold nothing then are left out."""
    try:
        rows = json.loads((folder / "detailed_memory_results.json").read_text(encoding="utf-8"))["configurations"]
    except (OSError, ValueError, KeyError):
        return
    for row in rows:
        parts = [each for each in row.get("components") or [] if each["bytes_at_peak"]]
        if parts:
            print(f"\nConfiguration {row['number']}: " + ", ".join(f"{name}={value}" for name, value in row["values"].items()))
            print("Component breakdown:", *(f"  {each['name']}: {each['bytes_at_peak'] / GB:.2f} GB" for each in parts), sep="\n")


def main(words=None, default_folder="memory_results", is_detailed=False):
    try:
        code, folder = scan(list(sys.argv[1:] if words is None else words), default_folder)
    except GpumemError as error:
        print(error, file=sys.stderr)
        return 127
    if is_detailed and code in _program.ANSWERED:
        print_components(folder)
    return code


if __name__ == "__main__":
    sys.exit(main())

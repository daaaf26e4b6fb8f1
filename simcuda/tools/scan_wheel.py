#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""List what a PyTorch wheel needs of CUDA and which of it the simulated libraries lack.

  simcuda/tools/scan_wheel.py .venv/lib/python3.11/site-packages/torch/lib
  simcuda/tools/scan_wheel.py --json --lib build/release/lib/simcuda TORCH_LIB

Exit code 0: nothing lacks; 1: something does; 2: the question could not be answered.
"""
import argparse
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import elf  # noqa: E402

CUDA_LIBRARY = re.compile(r"lib(cu[a-zA-Z]+|nccl|nvrtc|nvToolsExt|nvJitLink|nvshmem_host|nvidia-ml)\.so(\.\d+)*$")
# Unversioned references are assigned by their names; first match wins.
PREFIXES = [("nccl[A-Z]", "libnccl"), ("curand", "libcurand"), ("cuFile", "libcufile"), ("cusparseLt", "libcusparseLt"),
            ("nvrtc", "libnvrtc"), ("cublasLt", "libcublasLt"), ("cublas", "libcublas"), ("cudnn", "libcudnn"),
            ("cusolver", "libcusolver"), ("cusparse", "libcusparse"), ("cufft", "libcufft"), ("cupti", "libcupti"),
            ("nvshmem", "libnvshmem_host"), ("nvtx", "libnvToolsExt"), ("nvml", "libnvidia-ml"),
            ("__cuda[A-Z]|cuda[A-Z]", "libcudart"), ("cu[A-Z]", "libcuda")]


def stem(soname):
    return soname.split(".so")[0]


def owner_by_name(symbol, sonames):
    """The needed library that an unversioned symbol belongs to by its prefix; "" for none of CUDA's."""
    for prefix, library in PREFIXES:
        if re.match(prefix, symbol):
            return next((s for s in sorted(sonames) if stem(s) == library), library + ".so")
    return ""


def offered(simcuda_lib):
    """soname -> names that it defines, of every simulated library."""
    libraries = {}
    for path in glob.glob(os.path.join(glob.escape(simcuda_lib), "*.so*")):
        library = elf.Library(path)
        libraries[library.soname or os.path.basename(path)] = library.defined()
    return libraries


def wheel_needs(torch_lib):
    """-> (CUDA sonames, {(symbol, soname)}, the wheel's own libraries)"""
    libraries = [elf.Library(path) for path in sorted(glob.glob(os.path.join(glob.escape(torch_lib), "*.so")))]
    sonames = {name for library in libraries for name in library.needed if CUDA_LIBRARY.match(name)}
    needs = set()
    for library in libraries:
        for symbol, file in library.undefined():
            owner = file if CUDA_LIBRARY.match(file) else "" if file else owner_by_name(symbol, sonames)
            if owner:
                needs.add((symbol, owner))
    return sonames, needs, libraries


def scan(torch_lib, simcuda_lib):
    """What the wheel needs and what is missing, as a plain dictionary."""
    sonames, needs, libraries = wheel_needs(torch_lib)
    ours = offered(simcuda_lib)
    every = set().union(*ours.values()) if ours else set()
    missing = {(symbol, owner) for symbol, owner in needs
               if symbol not in ours.get(owner, ()) and not (owner not in sonames and symbol in every)}
    if missing:  # some wheels carry a library inside their own
        own = set().union(*(library.defined() for library in libraries))
        missing = {(symbol, owner) for symbol, owner in missing if symbol not in own}
    by_library = {}
    for symbol, owner in sorted(missing):
        by_library.setdefault(owner, []).append(symbol)
    runtime = next((s for s in sonames if stem(s) == "libcudart"), "")
    return {"torch_lib": torch_lib, "simcuda_lib": simcuda_lib, "sonames": sorted(sonames), "symbols": len(needs),
            "missing_sonames": sorted(sonames - ours.keys()), "missing": by_library, "runtime": runtime,
            "supported": not runtime or runtime in ours}


def describe(result):
    """The report for people."""
    lines = [f"{result['torch_lib']}: {result['symbols']} symbols of {len(result['sonames'])} CUDA libraries"]
    if not result["supported"]:
        lines.append(f"  built for {result['runtime']}, which is not simulated (struct layouts differ between majors)")
    lines += [f"  missing library {name}" for name in result["missing_sonames"]]
    for library, symbols in result["missing"].items():
        lines.append(f"  missing in {library}: {', '.join(symbols)}")
    if len(lines) == 1:
        lines.append("  all there")
    return "\n".join(lines)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch_lib", help="the folder torch/lib of an installed wheel")
    parser.add_argument("--lib", help="folder of the simulated libraries (default: as simcuda/run finds it)")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    args = parser.parse_args()
    if not glob.glob(os.path.join(glob.escape(args.torch_lib), "libtorch*.so")):
        parser.error(f"{args.torch_lib} holds no libtorch*.so")
    if not args.lib:
        import build_tree
        args.lib = build_tree.find(here)
        if not args.lib:
            parser.error("no simulated libraries found: build the project, or name their folder with --lib")
    try:
        result = scan(args.torch_lib, args.lib)
    except (OSError, elf.ElfError) as error:
        parser.error(str(error))
    print(json.dumps(result, indent=2) if args.json else describe(result))
    return 1 if result["missing"] or result["missing_sonames"] else 0


if __name__ == "__main__":
    sys.exit(main())

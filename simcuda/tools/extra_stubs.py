# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Compile stubs for what a wheel needs beyond the committed tables, so that it loads.

A function made here does nothing and answers its library's "not supported": its outputs are unknown to us. Symbols of
libraries that exist go into one unversioned library to preload (an unversioned definition satisfies any version);
libraries that do not exist are made under their own names, with the version node of the same name.
"""
import os
import shutil
import subprocess

PRELOADED = "libsimcuda_extra.so"
# The status that each library documents for "not supported" (or its nearest); 0 would claim that outputs were written.
NOT_SUPPORTED = {"libcublas": 15, "libcublasLt": 15, "libcudnn": 3000, "libcufft": 16, "libcusparse": 10,
                 "libcusparseLt": 10, "libcusolver": 9, "libnccl": 5, "libnvidia-ml": 3, "libcudart": 801,
                 "libcuda": 801, "libcurand": 999, "libcupti": 27, "libnvrtc": 11, "libcufile": 5001,
                 "libnvshmem_host": -1, "libnvToolsExt": 0, "libnvJitLink": 2}


def compiler():
    return next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), "")


def source(functions):
    """C of {symbol: status}; long, so that the upper half of the register is defined too."""
    return "".join(f"long {name}(void) {{ return {status}; }}\n" for name, status in sorted(functions.items()))


def build_one(path, functions, soname, node=""):
    """Compile one library at `path`, in place only when whole."""
    script, partial = path + ".map", path + ".partial"
    with open(script, "w", encoding="utf-8") as file:
        file.write(f"{node} {{ global: *; }};\n")
    command = [compiler(), "-shared", "-fPIC", "-w", "-O1", "-nostdlib", "-x", "c", "-", "-o", partial,
               f"-Wl,-soname,{soname}", f"-Wl,--version-script,{script}"]
    subprocess.run(command, input=source(functions).encode(), check=True, capture_output=True)
    os.replace(partial, path)


def build(result, folder):
    """Make what scan_wheel.scan() found missing. -> the libraries made, by name.

    Raises OSError or CalledProcessError.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    made, loose = [], {}
    for library, symbols in result["missing"].items():
        functions = dict.fromkeys(symbols, NOT_SUPPORTED.get(library.split(".so")[0], 0))
        if library in result["missing_sonames"]:
            build_one(os.path.join(folder, library), functions, library, library)
            made.append(library)
        else:
            loose.update(functions)
    for library in result["missing_sonames"]:  # needed by name alone
        if library not in result["missing"]:
            build_one(os.path.join(folder, library), {}, library, library)
            made.append(library)
    if loose:
        build_one(os.path.join(folder, PRELOADED), loose, PRELOADED)
        made.append(PRELOADED)
    return made

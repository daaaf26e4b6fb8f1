# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Which PyTorch a command would import, found without starting it wherever possible.

Failure mode: "" for what cannot be told; nothing here raises.
"""
import glob
import os
import re
import shutil
import subprocess

ASK = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"


def interpreter(command):
    """The Python that runs `command`: itself, the one in its first line, else the first on PATH."""
    path = shutil.which(command[0])
    if path and re.fullmatch(r"python[\d.]*", os.path.basename(path)):
        return path
    if path:
        try:
            with open(path, "rb") as script:
                first = script.readline(256)
        except OSError:
            first = b""
        words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
        words = [word for word in words if re.fullmatch(r"python[\d.]*", os.path.basename(word))]
        if words:
            return shutil.which(words[0]) or ""
    return shutil.which("python3") or ""


def package(python, environ=os.environ):
    """The folder of the torch package that `python` would import; "" if it has none."""
    places = environ.get("PYTHONPATH", "").split(os.pathsep)
    prefix = glob.escape(os.path.dirname(os.path.dirname(python)))
    places += sorted(glob.glob(os.path.join(prefix, "lib", "python3*", "site-packages")))
    for place in filter(None, places):
        if os.path.exists(os.path.join(place, "torch", "__init__.py")):
            return os.path.join(place, "torch")
    clean = {name: value for name, value in environ.items() if name != "LD_PRELOAD"}
    try:
        answer = subprocess.run([python, "-c", ASK], capture_output=True, text=True, timeout=30, env=clean, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip().splitlines()[-1] if answer.returncode == 0 and answer.stdout.strip() else ""


def pinned(torch):
    """Settings for the versions that the wheel was built for: {"SIMCUDA_CUDA_VERSION": "13.0", "SIMCUDA_CUDNN_VERSION": "91900", ...}."""
    found = {}
    try:
        with open(os.path.join(torch, "version.py"), encoding="utf-8", errors="replace") as file:
            cuda = re.search(r"^cuda\b.*= *['\"]([\d.]+)", file.read(), re.MULTILINE)
    except OSError:
        cuda = None
    if cuda:
        found["SIMCUDA_CUDA_VERSION"] = cuda[1]
    for path in glob.glob(os.path.join(glob.escape(os.path.dirname(torch)), "torch-*.dist-info", "METADATA")):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        for library, major, minor, patch in re.findall(
                r"^Requires-Dist: nvidia-(cudnn|nccl)-cu\d+ ?\(?==(\d+)\.(\d+)\.(\d+)", text, re.MULTILINE):
            thousands = 1000 if library == "cudnn" and int(major) < 9 else 10000  # cuDNN counts so up to 8
            found[f"SIMCUDA_{library.upper()}_VERSION"] = str(int(major) * thousands + int(minor) * 100 + int(patch))
    return found


def is_cuda_build(torch):
    """False for a PyTorch that was built for CPUs alone, or for another maker's GPUs."""
    lib = os.path.join(torch, "lib")
    return os.path.exists(os.path.join(lib, "libtorch_cuda.so")) or not os.path.exists(os.path.join(lib, "libtorch_cpu.so"))


def site_folders(python, torch, environ=os.environ):
    """Where this interpreter finds packages, as far as its folders and their .pth files tell; that of `torch` first."""
    prefix = glob.escape(os.path.dirname(os.path.dirname(python)))
    places = [os.path.dirname(torch), *environ.get("PYTHONPATH", "").split(os.pathsep)]
    places += sorted(glob.glob(os.path.join(prefix, "lib", "python3*", "site-packages")))
    for file in [path for place in filter(None, places) for path in sorted(glob.glob(os.path.join(glob.escape(place), "*.pth")))]:
        try:
            with open(file, encoding="utf-8", errors="replace") as lines:
                places += [os.path.join(os.path.dirname(file), line.strip()) for line in lines if line.strip() and not line.startswith(("#", "import"))]
        except OSError:
            continue
    return [place for place in dict.fromkeys(places) if place and os.path.isdir(place)]


def competing(torch, sonames, folders=()):
    """Folders that hold real libraries of these names: beside `torch`, found by its DT_RPATH first of all, and in other site folders, where
    it looks for them when it is imported."""
    places = [os.path.join(torch, "lib")]
    for folder in (os.path.dirname(torch), *folders):
        places += glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib"))
    return [place for place in places if any(os.path.exists(os.path.join(place, name)) for name in sonames)]

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Writes a libcuda.so.1 in which every hooked function succeeds: outputs count up, nothing is kept. For what the simulated driver cannot.

    coverage_fake.py COMPILER INCLUDE API_DEF OUT.cc
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "simcuda" / "generate"))
from headers import preprocess, prototypes  # noqa: E402

# Beside the hooked ones: what the hooks and the host ask.
WRITTEN = """
CUresult cuDriverGetVersion(int* version) { *version = 13000; return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) { *device = 0; return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) { g_current = context; return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* context) { *context = g_current; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) { *flags = 0; *active = g_retains > 0; return CUDA_SUCCESS; }
CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) { *total = 1ull << 37; *free_bytes = *total - g_used; return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute, CUdeviceptr) { *static_cast<int*>(data) = 0; return CUDA_SUCCESS; }
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr at) { *base = at; *size = 1 << 20; return CUDA_SUCCESS; }
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) { *static_cast<cuuint64_t*>(value) = 1 << 25; return CUDA_SUCCESS; }
CUresult cuDeviceGetGraphMemAttribute(CUdevice, CUgraphMem_attribute, void* value) { *static_cast<cuuint64_t*>(value) = g_graph; return CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) { *status = CUstreamCaptureStatus(g_capturing); return CUDA_SUCCESS; }
CUresult cuStreamIsCapturing_ptsz(CUstream, CUstreamCaptureStatus* status) { *status = CUstreamCaptureStatus(g_capturing); return CUDA_SUCCESS; }
CUresult cuStreamCreate(CUstream* out, unsigned) { *out = reinterpret_cast<CUstream>(0x5000); return CUDA_SUCCESS; }
CUresult cuGraphCreate(CUgraph* out, unsigned) { *out = reinterpret_cast<CUgraph>(0x6000); return CUDA_SUCCESS; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph, unsigned long long) { *out = reinterpret_cast<CUgraphExec>(0x7000); return CUDA_SUCCESS; }
"""

NO_OUTPUT = re.compile(r"cuMemMapArrayAsync|cuMemSetMemPool|cuMemHost(Un)?[rR]egister|cuMemFreeHost|cuGetProcAddress|cuCtxAttach")
# What a call does beside succeeding.
EFFECTS = (
    (re.compile(r"cuDevicePrimaryCtxRetain"), "++g_retains;"),
    (re.compile(r"cuDevicePrimaryCtxRelease"), "--g_retains;"),
    (re.compile(r"cuDevicePrimaryCtxReset"), "g_retains = 0;"),
    (re.compile(r"cuCtxCreate|cuCtxSetLimit|cuGreenCtxCreate|cuModuleLoad|cuLibraryLoad"), "g_used += 1 << 20;"),
    (re.compile(r"cuStreamBeginCapture"), "g_capturing = 1;"),
    (re.compile(r"cuStreamEndCapture"), "g_capturing = 0;"),
    (re.compile(r"cuGraphLaunch"), "g_graph += 1 << 21;"),
    (re.compile(r"cuDeviceGraphMemTrim"), "g_graph = 0;"),
)


def body(prototype):
    effects = "".join(effect for pattern, effect in EFFECTS if pattern.match(prototype.name))
    first = prototype.types[0].replace(" ", "") if prototype.types else ""
    if first.endswith("*") and not first.startswith("const") and first != "void*" and not NO_OUTPUT.match(prototype.name):
        kind = "unsigned" if first == "CUdeviceptr_v1*" else "unsigned long long"
        effects += f"if (a0 != nullptr) *reinterpret_cast<{kind}*>(a0) = static_cast<{kind}>(g_next += 1 << 24);"
    return effects + "return CUDA_SUCCESS;"


def main():
    compiler, include, table, out = sys.argv[1:5]
    declared = prototypes(preprocess(compiler, include, "cuda.h"), "CUresult", r"cu[A-Z]\w*")
    names = re.findall(r"^GPUMEM_DRIVER_SYMBOL\((\w+)\)", pathlib.Path(table).read_text(), re.M)
    lines = [
        "#define __CUDA_API_VERSION_INTERNAL",
        "#include <cuda.h>",
        "static unsigned long long g_next = 0x10000000, g_used, g_graph;",
        "static int g_retains, g_capturing;",
        "static CUcontext g_current;",
        '#pragma GCC diagnostic ignored "-Wunused-parameter"',
        'extern "C" {',
        WRITTEN,
    ]
    lines += [f"{declared[name].declaration()} {{ {body(declared[name])} }}" for name in names]
    pathlib.Path(out).write_text("\n".join([*lines, "}", ""]))


if __name__ == "__main__":
    main()

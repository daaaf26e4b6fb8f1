# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""report_depth.py cached|cold PAIRS: PyTorch's report of an allocation and of a free, PAIRS times, twenty Python frames deep, without PyTorch.

For bench/instructions: under an instruction counter PyTorch takes minutes to import. `cached`: from one line, so that the stack is known. `cold`:
each pair from a line of its own, at which the recorder sees a new stack.
"""

import ctypes
import sys

DEPTH = 20
REPORT = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int8), ("index", ctypes.c_int8)]


def start_cuda():
    runtime = ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
    memory = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096)) != 0:
        sys.exit("report_depth.py: cudaMalloc failed")
    runtime.cudaFree(memory)


def find_report():
    report = getattr(ctypes.CDLL(None), REPORT)
    report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64, Device]
    report.restype = None
    return report


def one_line(pairs):
    """A function that makes all pairs at one line."""
    code = f"def run(report, device):\n    for _ in range({pairs}):\n        report(4096, 512, 512, 2 << 20, device); report(4096, -512, 0, 2 << 20, device)\n"
    return code


def many_lines(pairs):
    body = "    report(4096, 512, 512, 2 << 20, device)\n    report(4096, -512, 0, 2 << 20, device)\n"
    return "def run(report, device):\n" + body * pairs


def descend(depth, run, report, device):
    return descend(depth - 1, run, report, device) if depth > 1 else run(report, device)


def main():
    mode, pairs = sys.argv[1], int(sys.argv[2])
    start_cuda()
    names = {}
    exec(compile((one_line if mode == "cached" else many_lines)(pairs), f"<{mode}>", "exec"), names)
    report = find_report()
    descend(DEPTH - 1, names["run"], report, Device(1, 0))


if __name__ == "__main__":
    main()

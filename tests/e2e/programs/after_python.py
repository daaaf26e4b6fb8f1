# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""PyTorch's first report comes as Python ends, and the process goes on without Python until its standard input is closed. No PyTorch: it would take
time to end."""

import atexit
import ctypes
import time

REPORT = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int8), ("index", ctypes.c_int8)]


runtime = ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
memory = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
report = getattr(ctypes.CDLL(None), REPORT)
report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64, Device]
report.restype = None
time.sleep(0.3)  # the recorder's thread has come to rest, and looks again when Python has ended
# Called when there is no interpreter any more: by then nobody may ask it for anything.
ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).getchar)
atexit.register(report, 4096, 512, 512, 2 << 20, Device(1, 0))

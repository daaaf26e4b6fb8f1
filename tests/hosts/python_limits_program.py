# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Allocates device memory, by ctypes alone, where Python stacks are unusual: 10,000 calls deep, in a sub-interpreter, in greenlets (where they are
installed). Any CPython from 3.9 on. Prints what it did."""

import ctypes
import sys
import threading

try:
    import greenlet
except ImportError:
    greenlet = None

cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
DEPTH = 10_000
context = ctypes.c_void_p()


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


def allocate(mib):
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(mib * MIB))


def deep(depth):
    return deep(depth - 1) if depth else allocate(1)


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def recursion():
    call("cuCtxSetCurrent", context)
    deep(DEPTH)


WITHIN = """
def within():
    import ctypes
    address = ctypes.c_uint64()
    assert ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(2 << 20)) == 0

within()
"""


def sub_interpreter():
    try:
        import _interpreters as interpreters

        identity = interpreters.create("legacy")
    except ImportError:
        import _xxsubinterpreters as interpreters

        identity = interpreters.create(isolated=False)
    interpreters.run_string(identity, WITHIN)
    interpreters.destroy(identity)
    allocate(4)


def producer():
    allocate(8)
    consumes.switch()
    allocate(16)


def consumer():
    allocate(32)
    produces.switch()


def main():
    global produces, consumes
    call("cuInit", 0)
    device = ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    sys.setrecursionlimit(2 * DEPTH)
    threading.stack_size(512 << 20)
    in_a_thread(recursion)
    sub_interpreter()
    if greenlet:
        produces, consumes = greenlet.greenlet(producer), greenlet.greenlet(consumer)
        produces.switch()
    print("greenlets" if greenlet else "no greenlets")


main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Allocates device memory through the driver, by ctypes alone, from several kinds of Python frames. Any CPython from 3.9 on."""

import ctypes
import functools
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


def allocate(mib):
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(mib * MIB))
    return address


class Model:
    def forward(self):
        return [allocate(16) for _ in range(1)]


def generator():
    yield allocate(8)


async def coroutine():
    return allocate(4)


def run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def generated():
    names = {"allocate": allocate}
    exec(compile("\n\ndef forward_é():\n  return allocate(2)\n", "<eval_with_key>.7", "exec"), names)
    return names["forward_é"]()


def deep(depth):
    return deep(depth - 1) if depth else allocate(32)


def main():
    call("cuInit", 0)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    kept = [Model().forward(), list(generator()), run(coroutine()), generated()]
    kept.append(functools.reduce(lambda total, _: allocate(1), range(1, 3)))

    def threaded():
        call("cuCtxSetCurrent", context)
        kept.append(allocate(64))

    thread = threading.Thread(target=threaded)
    thread.start()
    thread.join()
    sys.setrecursionlimit(5000)
    kept.append(deep(700))


main()

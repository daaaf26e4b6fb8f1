# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What simulated CUDA holds of a planned program's device tensors, as CPU tensors, and how true it is. values.py loads this.

    held = DeviceBytes(torch)
    seen, truth = held.seen(tensor)              # a CPU tensor over its bytes; UNKNOWN, DRAWN or KNOWN
    held.put(tensor, value, KNOWN)               # value becomes what the tensor holds

A tensor is KNOWN where it holds what it would on a GPU, DRAWN where it follows from random numbers of the same distribution, else UNKNOWN. Tensors are held up to a size:
integers and booleans decide more than floats, and what nobody knows is not worth computing with.

Random numbers are drawn when somebody looks at them, since most only fill weights: a range may be DRAWN and still be owed its bytes (`owed`).

Failure: Unknown, where a tensor's bytes are not to be had here.
"""

import ctypes

UNKNOWN, DRAWN, KNOWN = range(3)  # Truth of simcuda/device/contents.h

COUNTED_LIMIT = 64 << 20  # bytes of a tensor of integers or booleans
FLOAT_LIMIT = 4 << 20  # of floats
GUESSED_LIMIT = 1 << 20  # of either, where it is UNKNOWN
MOST_OWED = 64  # draws that nobody looked at yet


class Unknown(Exception):
    pass


class Simulation:
    """What libcuda says of the bytes of device memory. The functions hold the GIL: they are short."""

    def __init__(self):
        driver, preloaded = ctypes.PyDLL("libcuda.so.1"), ctypes.PyDLL(None)
        self.bytes, self.learn, self.doubt, self.found, self.truths = (getattr(driver, f"simcuda_{name}") for name in ("bytes", "learn", "doubt", "found", "truths"))
        self.bytes.restype = self.learn.restype = ctypes.c_uint64
        self.bytes.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int))
        self.learn.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int)
        self.doubt.argtypes = (ctypes.c_uint64, ctypes.c_uint64)
        self.found.argtypes = (ctypes.c_uint64,)
        self.truths.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
        self.doubt.restype = self.found.restype = self.truths.restype = None
        self.observe = preloaded.simcuda_observe
        self.observe.restype, self.observe.argtypes = ctypes.py_object, (ctypes.py_object,)


def is_counted(tensor):
    return not tensor.is_floating_point() and not tensor.is_complex()


def span(tensor):
    """Bytes from its first element to behind its last."""
    if tensor.numel() == 0:
        return 0
    return (1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))) * tensor.element_size()


class DeviceBytes:
    UNKNOWN, DRAWN, KNOWN = UNKNOWN, DRAWN, KNOWN

    def __init__(self, torch):
        self.torch, self.simulation = torch, Simulation()
        self.tensor, self.cpu = torch.Tensor, torch.device("cpu")
        self.truth = ctypes.c_int()
        self.truth_pointer = ctypes.byref(self.truth)
        self.owed = {}  # address: (bytes, what writes them)

    def is_held(self, tensor):
        size = tensor.numel() * tensor.element_size()
        return tensor.is_cuda and (size <= FLOAT_LIMIT or (size <= COUNTED_LIMIT and is_counted(tensor)))

    def over(self, tensor, host, size):
        """A CPU tensor of its shape over bytes of the host."""
        flat = self.torch.frombuffer((ctypes.c_char * size).from_address(host), dtype=tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride())

    def like(self, tensor):
        """A fresh CPU tensor of its shape and strides."""
        return self.torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.cpu)

    def seen(self, tensor):
        """(CPU tensor over what is there, truth of the least true element)."""
        if not tensor.is_cuda:
            if tensor.device.type != "cpu":
                raise Unknown
            return tensor, KNOWN
        if tensor.numel() == 0:
            return self.like(tensor), KNOWN
        size = span(tensor)
        if size > COUNTED_LIMIT or not self.is_held(tensor):
            raise Unknown
        if self.owed:
            self.pay(tensor.data_ptr(), size)
        host = self.simulation.bytes(tensor.data_ptr(), size, self.truth_pointer)
        truth = self.truth.value
        if host == 0 or (truth == UNKNOWN and size > GUESSED_LIMIT):
            raise Unknown
        return self.over(tensor, host, size), truth

    def truths(self, tensor):
        """The truth of each element, as a CPU tensor of bytes with the tensor's shape."""
        count = span(tensor) // tensor.element_size()
        truths = self.torch.zeros(count, dtype=self.torch.uint8, device=self.cpu)
        self.simulation.truths(tensor.data_ptr(), count, tensor.element_size(), truths.data_ptr())
        return truths.as_strided(tensor.shape, tensor.stride())

    def put(self, tensor, value, truth):
        """`value` becomes what the device tensor holds."""
        if tensor.numel() == 0:
            return
        size = span(tensor)
        if self.owed:
            self.pay(tensor.data_ptr(), size)
        if size > COUNTED_LIMIT or value.shape != tensor.shape:
            return self.simulation.doubt(tensor.data_ptr(), size)
        if size != tensor.numel() * tensor.element_size():  # with gaps, which stay as they are
            truth = min(truth, self.seen(tensor)[1])
        host = self.simulation.learn(tensor.data_ptr(), size, truth)
        if host != 0:
            self.over(tensor, host, size).copy_(value)

    def put_each(self, tensor, value, truths):
        """The same where each element has its own truth."""
        least = int(truths.min())
        if int(truths.max()) == least or not tensor.is_contiguous():
            return self.put(tensor, value, least)
        self.put(tensor, value, least)
        flat, width = truths.flatten(), tensor.element_size()
        begins = [0, *((flat[1:] != flat[:-1]).nonzero().flatten() + 1).tolist(), flat.numel()]
        for begin, end in zip(begins, begins[1:]):
            if flat[begin] > least:
                self.simulation.learn(tensor.data_ptr() + begin * width, (end - begin) * width, int(flat[begin]))

    def forget(self, tensor):
        if tensor.is_cuda and tensor.numel() > 0:
            if self.owed:
                self.drop(tensor.data_ptr(), span(tensor))
            self.simulation.doubt(tensor.data_ptr(), span(tensor))

    # Draws that nobody looked at yet.

    def owe(self, tensor, write):
        """From now on the tensor is DRAWN; write(CPU tensor) says what it holds when somebody looks."""
        size = span(tensor)
        self.drop(tensor.data_ptr(), size)
        if len(self.owed) >= MOST_OWED:
            oldest = next(iter(self.owed))
            self.simulation.doubt(oldest, self.owed.pop(oldest)[0])
        if self.simulation.learn(tensor.data_ptr(), size, DRAWN) != 0:
            self.owed[tensor.data_ptr()] = (size, self.like(tensor), write)

    def overlapping(self, address, size):
        return [begin for begin, owed in self.owed.items() if begin < address + size and address < begin + owed[0]]

    def pay(self, address, size):
        for begin in self.overlapping(address, size):
            bytes_, like, write = self.owed.pop(begin)
            host = self.simulation.bytes(begin, bytes_, self.truth_pointer)
            if host != 0 and self.truth.value == DRAWN:  # else the block is somebody else's by now
                write(self.over(like, host, bytes_))

    def drop(self, address, size):
        for begin in self.overlapping(address, size):
            del self.owed[begin]

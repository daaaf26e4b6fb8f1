# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The requests of a history through this Python's own PyTorch allocator, on simulated CUDA. Started by allocator.py; reads and writes JSON.

    simcuda/run python allocate_in_process.py REQUESTS.json RESULT.json [REQUESTS.json RESULT.json ...]

For each pair in a process of its own: first what the program had before its history is made: each segment by requests that fill it, then its blocks in it. Then every request in order.
"""

import ctypes
import json
import os
import sys

MIB = 1 << 20
REGION = 32 * MIB


class Addresses:
    """Asks simulated CUDA to place the next segment where the GPU had it, all moved by one distance. `usable` is False where it cannot."""

    def __init__(self, spans):
        self.usable = False
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
            begin, end = ctypes.c_uint64(), ctypes.c_uint64()
            self.usable = bool(spans) and bool(self.driver.simcuda_address_range(0, ctypes.byref(begin), ctypes.byref(end)))
        except (OSError, AttributeError):
            return
        if self.usable:
            lowest, highest = min(spans)[0] // REGION * REGION, -(-max(sum(span) for span in spans) // REGION) * REGION
            middle = (begin.value + end.value - (highest - lowest)) // 2 // REGION * REGION
            self.usable = middle > begin.value
            self.distance = middle - lowest

    def place(self, address):
        if self.usable:
            self.driver.simcuda_place_next(0, ctypes.c_uint64(address + self.distance))


class Allocator:
    def __init__(self, torch, given):
        self.torch, self.given = torch, given
        self.raw, self.give = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
        self.out_of_memory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
        torch.cuda.init()
        self.streams = [torch.cuda.current_stream(0), *(torch.cuda.Stream() for _ in range(given["streams"] - 1))]
        self.where = {}            # number of a block -> address
        self.bases = []            # of the segments of the beginning
        self.failures, self.first = 0, True
        self.addresses = Addresses(given["spans"])

    def take(self, size, stream):
        return self.raw(size, self.streams[stream].cuda_stream)

    def pieces(self, size, stream, small):
        """Fills so much, in requests that stay in one pool."""
        found = []
        while size:
            part = min(size, MIB) if small else size
            found.append(self.take(part, stream))
            size -= part
        return found

    def fill(self, each, free):
        """The blocks of one range, with fillers between that are given back when all stand."""
        at = each["address"]
        for address, took, number in each["blocks"]:
            free += self.pieces(address - at, each["stream"], each["small"])
            self.where[number] = self.take(took, each["stream"])
            at = address + took
        free += self.pieces(each["address"] + each["size"] - at, each["stream"], each["small"])

    def begin_with_segments(self):
        whole = []
        for each in self.given["start"]:
            self.addresses.place(each["address"])
            whole.append(self.pieces(each["size"], each["stream"], each["small"]))
            self.bases.append(whole[-1][0])
        free = []
        for each, fillers in zip(self.given["start"], whole):
            for address in fillers:
                self.give(address)
            self.fill(each, free)
        for address in free:
            self.give(address)

    def begin_with_ranges(self):
        free, gaps, last = [], [], {}
        for each in self.given["start"]:
            key = each["stream"], each["small"]
            if key in last:
                gaps += self.pieces(each["address"] - last[key], *key)
            self.fill(each, free)
            last[key] = each["address"] + each["size"]
        for address in gaps:
            self.give(address)
        if gaps:
            self.torch.cuda.empty_cache()
        for address in free:
            self.give(address)

    def begin(self):
        if self.given["expandable"]:
            self.begin_with_ranges()
        else:
            self.begin_with_segments()
        wrong = [block for each in self.given["start"] for block in each["blocks"] if self.lies_elsewhere(each, block)]
        reserved = self.torch.cuda.memory_reserved()
        if wrong or reserved != sum(each["size"] for each in self.given["start"]):
            raise SystemExit(f"the beginning could not be rebuilt: {len(wrong)} blocks lie elsewhere, {reserved} bytes are reserved")

    def lies_elsewhere(self, each, block):
        if self.given["expandable"]:
            return False
        return self.where[block[2]] - self.bases[self.given["start"].index(each)] != block[0] - each["address"]

    def do(self, request):
        kind = request[0]
        if kind == "alloc":
            _, number, size, stream, address = request
            if address is not None:
                self.addresses.place(address)
            self.where[number] = self.take(size, stream)
            if self.first:  # a program's first tensor is filled by a kernel, and under WSL2 that frees addresses
                self.torch.cuda._sleep(1)
                self.first = False
        elif kind == "free":
            self.give(self.where.pop(request[1]))
        elif kind == "empty":
            self.torch.cuda.empty_cache()
        else:
            try:
                self.give(self.take(request[1], request[2]))
            except self.out_of_memory:
                self.failures += 1

    def run(self):
        """(requests done, sentence about why not all)."""
        for index, request in enumerate(self.given["requests"]):
            try:
                self.do(request)
            except self.out_of_memory:
                return index, f"request {index} ({request[2]} bytes) was served on the GPU and is out of memory here"
        return len(self.given["requests"]), ""


def answer(torch, request, result):
    with open(request, encoding="utf-8") as file:
        given = json.load(file)
    os.environ.update(given["settings"])
    allocator = Allocator(torch, given)
    allocator.begin()
    started = {address: number for number, address in allocator.where.items()}
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=4 * len(given["requests"]) + 100_000)
    done, died = allocator.run()
    snapshot = torch.cuda.memory._snapshot()
    events = [[entry["action"], entry["size"], entry.get("addr", 0)] for entry in snapshot["device_traces"][0] if entry["action"] != "snapshot"]
    segments = [[segment["total_size"], segment["segment_type"]] for segment in snapshot["segments"]]
    found = {"done": done, "died": died, "failures": allocator.failures, "bases": allocator.bases, "started": list(started.items()), "events": events,
             "segments": segments, "torch": torch.__version__, "placed": allocator.addresses.usable}  # fmt: skip
    with open(result, "w", encoding="utf-8") as file:
        json.dump(found, file)


def main():
    import torch

    for request, result in zip(sys.argv[1::2], sys.argv[2::2]):
        child = os.fork()  # CUDA has not begun, so each begins with a device of its own
        if child == 0:
            answer(torch, request, result)
            sys.stdout.flush()
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit(f"no answer to {request}")


if __name__ == "__main__":
    main()

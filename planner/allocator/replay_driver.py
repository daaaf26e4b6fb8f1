# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The part of `gpumemshim replay` that runs in a Python with PyTorch, on simulated CUDA: it asks PyTorch's own allocator for what a recorded program asked for.

    python replay_driver.py BEGINNING REQUESTS FACTS RESULT

BEGINNING, REQUESTS: records of 24 bytes (request_file.h); what the program had before its history is made of the first ones. FACTS: JSON: streams, blocks, fractions
and room by device, spans of the beginning (history.h). RESULT: JSON, what Replay.result
writes. The settings of the allocator are those of the environment. A request that was served when it was recorded and is not served here ends the replay: the
program would have gone another way from there.
"""

import ctypes
import itertools
import json
import os
import struct
import sys

RECORD = struct.Struct("<BBHIQQ")
PIECE = RECORD.size * 65536
ALLOC, FREE, FAILED, EMPTY_CACHE, OUTSIDE_ALLOC, OUTSIDE_FREE, RELEASE_POOL, PLACE, CAPTURE = range(9)
PAGE = 2 << 20  # in which CUDA gives memory out
REGION = 32 << 20  # addresses are moved by whole ones
HISTORY_BEGINS = b"gpumemshim replay: the history begins"  # segment_log.h
HISTORY_ENDS = b"gpumemshim replay: the history ends"


def records(path):
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield from RECORD.iter_unpack(piece)


class Captures:
    """The requests of a history with the CUDA graphs of each private pool captured in another order: what needs most first.

    A capture is the stretch of requests from its first block to the next block that is not its own. The stretches of a pool change places; what is asked within them by others stays where it
    is. Blocks get numbers that are used once. Where a block is freed before its capture would come, that pool keeps its order."""

    def __init__(self, path):
        self.requests, self.pools, self.of_block, self.used = [], {}, {}, 0
        numbers, now, under_way = {}, {}, None
        for kind, device, stream, pool, block, size in records(path):
            key, stretch = (device, pool), None
            if kind == CAPTURE:
                now[key], under_way = block, None
                continue
            if kind in (ALLOC, OUTSIDE_ALLOC):
                numbers[block] = self.used
                self.used += 1
            number = numbers.get(block, 0)
            if kind == ALLOC:
                captures = self.pools.setdefault(key, {})
                stretch = captures.setdefault(now[key], {"own": [], "late": []}) if pool and now.get(key) else None
                self.of_block[number] = stretch, size
                under_way = stretch
            elif kind == FREE:
                stretch, _ = self.of_block[number]
                under_way = under_way if stretch is under_way else None  # something else goes: the capture is over
            if stretch is not None:
                stretch["own" if stretch is under_way else "late"].append(self.requests.__len__())
            self.requests.append((kind, device, stream, pool, number, size))

    def need(self, stretch):
        now = most = 0
        for at in stretch["own"]:
            kind, *_, number, _ = self.requests[at]
            now += self.of_block[number][1] if kind == ALLOC else -self.of_block[number][1]
            most = max(most, now)
        return most

    def reorder(self):
        """Whether any pool's captures have another order now."""
        changed = False
        for captures in self.pools.values():
            places = sorted(captures.values(), key=lambda stretch: stretch["own"][0])
            wanted = sorted(places, key=self.need, reverse=True)
            if wanted == places or any(after["own"][0] < before["own"][-1] for before, after in zip(places, places[1:])):
                continue
            if any(at < places[-1]["own"][-1] for stretch in places for at in stretch["late"]):
                continue
            changed = True
            own = [[self.requests[at] for at in stretch["own"]] for stretch in wanted]
            for place, requests in zip(places, own):
                self.put(dict.fromkeys(place["own"]), requests)
        return changed

    def put(self, places, requests):
        """In place of others; what is not theirs stays behind as many of them as before."""
        merged, own, first = [], iter(requests), min(places)
        for at in range(first, max(places) + 1):
            there, self.requests[at] = self.requests[at], None
            if at in places:
                merged.extend(itertools.islice(own, 1))
            elif there is not None:
                merged.extend(there if isinstance(there, list) else [there])
        self.requests[first] = [*merged, *own]

    def __iter__(self):
        for request in self.requests:
            if isinstance(request, list):
                yield from request
            elif request is not None:
                yield request


class Replay:
    def __init__(self, torch, facts):
        self.torch, self.facts = torch, facts
        self.runtime = ctypes.CDLL(None)  # what the recorder stands in front of
        self.alloc = torch._C._cuda_cudaCachingAllocator_raw_alloc
        self.free = torch._C._cuda_cudaCachingAllocator_raw_delete
        self.out_of_memory = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
        self.live = [0] * facts["blocks"]
        self.at, self.died, self.served, self.failed, self.notes = 0, None, 0, 0, []
        self.pools, self.open_pool = {}, None
        self.stream_instead, self.one_pool = facts["stream_instead"], facts["one_pool"]
        self.failures, self.fit, self.stats = 0, None, None
        torch.cuda.init()
        self.streams = [self.make_streams(device) for device in range(facts["devices"])]
        self.moves = {int(device): self.move(int(device), *span) for device, span in facts["spans"].items()}

    def move(self, device, lowest, highest):
        """How far from their recorded addresses segments are to lie here; None where it cannot be."""
        try:
            driver = ctypes.CDLL("libcuda.so.1")
            begin, end = ctypes.c_uint64(), ctypes.c_uint64()
            if not driver.simcuda_address_range(device, ctypes.byref(begin), ctypes.byref(end)):
                return None
        except (OSError, AttributeError):
            return None
        lowest, highest = lowest // REGION * REGION, -(-highest // REGION) * REGION
        middle = (begin.value + end.value - (highest - lowest)) // 2 // REGION * REGION
        return middle - lowest if middle > begin.value else None

    def place(self, device, address):
        if self.moves.get(device) is not None:
            ctypes.CDLL("libcuda.so.1").simcuda_place_next(device, ctypes.c_uint64(address + self.moves[device]))

    def begin_history(self, path):
        """What there was before, with all of the device's room; then the recorded room and limits."""
        devices = range(self.facts["devices"])
        ballast = {device: self.ballast(device) for device in devices}
        if os.path.getsize(path) != 0:
            self.run(records(path))
            for device in devices:
                self.torch.cuda.reset_peak_memory_stats(device)
            self.mark(HISTORY_BEGINS)
        self.at = 0
        for device in reversed(devices):
            self.prepare(device, ballast[device])

    def mark(self, text):
        """In the trace; as gpumemshim.h does it."""
        try:
            find = self.runtime.gpumemshim_get_api_v1
        except AttributeError:
            return
        find.restype = ctypes.c_void_p
        table = ctypes.cast(find(), ctypes.POINTER(ctypes.c_void_p))  # version and size in one, recording, mark
        ctypes.CFUNCTYPE(None, ctypes.c_char_p)(table[2])(text)

    def ballast(self, device):
        """So much is to be taken from the device for the room that the recorded program had."""
        room = self.facts["room"].get(str(device))
        if room is None:
            return 0
        free, _ = self.torch.cuda.mem_get_info(device)
        return -(-(free - room) // PAGE) * PAGE

    def make_streams(self, device):
        """As many as were recorded. The allocator goes through its caches in the order of their handles, so that is kept."""
        self.torch.cuda.set_device(device)
        made = []
        for _ in self.facts["streams"][1:]:
            handle = ctypes.c_void_p()
            if self.runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) != 0:
                raise SystemExit("cannot make a stream")
            made.append(handle.value)
        order = sorted(range(1, len(made) + 1), key=lambda index: self.facts["streams"][index])
        streams = [self.torch.cuda.default_stream(device)] * (len(made) + 1)
        for index, handle in zip(order, sorted(made)):
            streams[index] = self.torch.cuda.ExternalStream(handle, device=device)
        return streams

    def prepare(self, device, ballast):
        """The room that the recorded program had, and the limit that it set itself."""
        self.torch.cuda.set_device(device)
        fraction = self.facts["fractions"].get(str(device))
        if fraction is not None:
            self.torch.cuda.set_per_process_memory_fraction(min(fraction, 1.0), device)
        if ballast > 0:
            self.outside_alloc(ballast)
        elif ballast < 0:
            self.notes.append(f"the simulated GPU has {-ballast} bytes less room than the recorded one")

    def outside_alloc(self, size):
        address = ctypes.c_void_p()
        if self.runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) != 0:
            self.runtime.cudaGetLastError()
            return 0
        return address.value

    def close_pool(self):
        if self.open_pool is not None:
            device, number = self.open_pool
            self.torch._C._cuda_endAllocateToPool(device, self.pools[self.open_pool])
            self.torch._C._cuda_releasePool(device, self.pools[self.open_pool])
            self.open_pool = None

    def begin(self, device, number):
        begin = getattr(self.torch._C, "_cuda_beginAllocateCurrentThreadToPool", None) or self.torch._C._cuda_beginAllocateToPool
        begin(device, self.pools[device, number])

    def use_pool(self, device, number):
        """From now on blocks come from this private pool, as while a graph is captured; 0: from the common one."""
        if self.open_pool == (device, number) or (number == 0 and self.open_pool is None):
            return
        self.close_pool()
        if number == 0:
            return
        if (device, number) not in self.pools:
            self.pools[device, number] = self.torch.cuda.graph_pool_handle()
            self.begin(device, number)  # what the graph holds until it goes
            self.torch._C._cuda_endAllocateToPool(device, self.pools[device, number])
        self.begin(device, number)
        self.open_pool = device, number

    def release_pool(self, number):
        self.close_pool()
        if self.one_pool:
            return  # other graphs use it
        for key in [key for key in self.pools if key[1] == number]:
            self.torch._C._cuda_releasePool(key[0], self.pools.pop(key))

    def switch(self, device, stream, pool):
        stream, pool = self.stream_instead[stream], 1 if self.one_pool and pool else pool
        self.torch.cuda.set_device(device)
        self.use_pool(device, pool)
        self.torch.cuda.set_stream(self.streams[device][stream])
        return self.streams[device][stream].cuda_stream

    def run(self, requests):
        alloc, free, live = self.alloc, self.free, self.live
        here, handle = None, 0
        for kind, device, stream, pool, block, size in requests:
            if kind == FREE:
                if live[block]:
                    free(live[block])
                    live[block] = 0
            elif kind == ALLOC:
                if (device, stream, pool) != here:
                    here, handle = (device, stream, pool), self.switch(device, stream, pool)
                try:
                    live[block] = alloc(size, handle)
                except self.out_of_memory:
                    self.died = {"at": self.at, "size": size, "device": device}
                    return
            elif kind == CAPTURE:
                continue
            else:
                here = None
                self.rare(kind, device, stream, pool, block, size)
                if self.died is not None or self.fit is not None:
                    return
            self.at += 1

    def rare(self, kind, device, stream, pool, block, size):
        if kind == FAILED:
            try:
                self.free(self.alloc(size, self.switch(device, stream, pool)))
                self.served += 1
            except self.out_of_memory:
                self.failed += 1
            self.failures += 1
            if self.failures == self.facts["probe"]:
                self.fit = self.probe(device, stream, pool)
        elif kind == EMPTY_CACHE:
            self.close_pool()
            self.torch.cuda.empty_cache()
        elif kind == PLACE:
            self.place(device, size)
        elif kind == RELEASE_POOL:
            self.release_pool(pool)
        elif kind == OUTSIDE_ALLOC:
            self.torch.cuda.set_device(device)
            self.live[block] = self.outside_alloc(size)
            if self.live[block] == 0:
                self.died = {"at": self.at, "size": size, "device": device, "outside": True}
        elif kind == OUTSIDE_FREE and self.live[block]:
            self.runtime.cudaFree(ctypes.c_void_p(self.live[block]))
            self.live[block] = 0

    def probe(self, device, stream, pool):
        """The largest request that would be served now, in whole pages. It ends the replay."""
        self.stats = self.device_stats()
        self.mark(HISTORY_ENDS)
        handle = self.switch(device, stream, pool)
        fits, too_much = 0, self.torch.cuda.get_device_properties(device).total_memory // PAGE + 1
        while too_much - fits > 1:
            pages = (fits + too_much) // 2
            try:
                self.free(self.alloc(pages * PAGE, handle))
                fits = pages
            except self.out_of_memory:
                too_much = pages
        return fits * PAGE

    def device_stats(self):
        wanted = ("reserved_bytes.all.peak", "allocated_bytes.all.peak", "num_alloc_retries", "num_ooms")
        stats = {device: self.torch.cuda.memory_stats(device) for device in range(self.facts["devices"])}
        return {str(device): {name: of.get(name, 0) for name in wanted} for device, of in stats.items()}

    def result(self):
        return {
            "torch": self.torch.__version__,
            "backend": self.torch.cuda.get_allocator_backend(),
            "done": self.at,
            "died": self.died,
            "served": self.served,
            "failed": self.failed,
            "notes": self.notes,
            "fit": self.fit,
            "stats": self.stats or self.device_stats(),
        }


def main(beginning, requests, facts, result):
    import torch

    with open(facts, encoding="utf-8") as file:
        known = json.load(file)
    asked = records(requests)
    if known["largest_first"]:
        asked = Captures(requests)
        if os.path.getsize(beginning) != 0 or not asked.reorder():
            raise SystemExit("RuntimeError: there is no other order of captures")
        known["blocks"] = asked.used
    replay = Replay(torch, known)
    replay.begin_history(beginning)
    if replay.died is None:
        replay.run(asked)
    with open(result, "w", encoding="utf-8") as file:
        json.dump(replay.result(), file)


if __name__ == "__main__":
    main(*sys.argv[1:5])

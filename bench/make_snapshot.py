#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Writes a memory snapshot like PyTorch's with as many entries as you like, for bench/import_snapshot.py and tests: training steps that allocate and free in
one large segment, with stacks of 20 to 50 frames that share as PyTorch's do: each event has a list of its own, a completed free that of its request, and
lists have their frames in common.

    bench/make_snapshot.py OUT.pickle [ENTRIES [STACKS]]

The opcodes are those of Python's own pickler (protocol 4, in frames), written one by one: a file of 1 GB takes seconds and a few hundred MB of memory.
Prints what is in it as JSON: `entries`, `events` (allocations and frees), `peak_bytes` and `peak_blocks`.
"""

import json
import pickle
import random
import struct
import sys

MIB = 1 << 20
BASE = 0x7F0000000000
TIME = 1_700_000_000_000_000
SLOT = 64 * MIB
SIZES = [(index * 7 % 40 + 2) * MIB - index * 100 for index in range(400)]
FRAME_BYTES = 64 << 10


def number(value):
    if value < 256:
        return b"K" + bytes([value])
    if value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    size = (value.bit_length() + 8) // 8
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little")


class Writer:
    """Pieces of a pickle; what is kept has numbers in the order of writing."""

    def __init__(self, file):
        self.file, self.pending, self.size, self.kept, self.texts = file, [], 0, 0, {}
        file.write(b"\x80\x04")

    def put(self, piece, kept=0):
        self.pending.append(piece)
        self.size += len(piece)
        self.kept += kept
        if self.size >= FRAME_BYTES:
            self.flush()

    def flush(self):
        self.file.write(b"\x95" + struct.pack("<Q", self.size))
        self.file.write(b"".join(self.pending))
        self.pending, self.size = [], 0

    def text(self, value):
        """A reference to a text, which is written where it is first wanted."""
        if value not in self.texts:
            raw = value.encode()
            head = b"\x8c" + bytes([len(raw)]) if len(raw) < 256 else b"X" + struct.pack("<I", len(raw))
            self.texts[value] = self.kept
            self.put(head + raw + b"\x940", kept=1)
        return reference(self.texts[value])


def reference(index):
    return b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)


class Stacks:
    """Lists of 6,000 frames: lines of a program and its libraries."""

    def __init__(self, writer, random_numbers, count):
        key = {name: writer.text(name) for name in ("filename", "line", "name")}
        frames = []
        for index in range(6000):
            texts = [writer.text(f"/usr/lib/python3/dist-packages/package{index % 60}/module.py"), writer.text(f"f{index}")]
            frames.append(reference(writer.kept))
            line = key["line"] + number(random_numbers.randrange(900))
            writer.put(b"}\x94(" + key["filename"] + texts[0] + line + key["name"] + texts[1] + b"u0", kept=1)
        self.writer, self.random = writer, random_numbers
        self.lists = [b"]\x94(" + b"".join(random_numbers.choices(frames, k=20 + which % 31)) + b"e" for which in range(count)]

    def put(self):
        """A list with any of the stacks. Returns what refers to it from then on."""
        kept = reference(self.writer.kept)
        self.writer.put(self.lists[int(self.random.random() * len(self.lists))], kept=1)
        return kept


def write(out, entries, count):
    random_numbers = random.Random(1)
    with open(out, "wb") as file:
        writer = Writer(file)
        stacks = Stacks(writer, random_numbers, count)
        key = {name: writer.text(name) for name in ("action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames")}
        head = {name: b"}\x94(" + key["action"] + writer.text(name) + key["addr"] for name in ("segment_alloc", "alloc", "free_requested", "free_completed")}
        tail = key["compile_context"] + writer.text("N/A") + key["user_metadata"] + writer.text("") + key["frames"]
        places = [number(BASE + SLOT * index) + key["size"] + number(size) + key["stream"] + number(0) + key["time_us"] for index, size in enumerate(SIZES)]
        written = events = 0

        def entry(action, place, time_us, frames=None):
            nonlocal written
            if written % 1000 == 0:
                writer.put(b"e(" if written else b"(")
            writer.put(head[action] + place + b"\x8a\x07" + time_us.to_bytes(7, "little") + tail, kept=1)
            if frames is None:
                frames = stacks.put()
            else:
                writer.put(frames)
            writer.put(b"u")
            written += 1
            return frames

        writer.put(b"}\x94(" + writer.text("device_traces") + b"]\x94]\x94", kept=3)
        whole = number(BASE) + key["size"] + number(SLOT * len(SIZES)) + key["stream"] + number(0) + key["time_us"]
        time_us = TIME
        entry("segment_alloc", whole, time_us)
        while written < entries:
            for place in places:
                entry("alloc", place, time_us := time_us + 3)
            for place in reversed(places):
                frames = entry("free_requested", place, time_us := time_us + 2)
                entry("free_completed", place, time_us, frames)
            events += 2 * len(SIZES)
        size = SLOT * len(SIZES)
        block = {"address": BASE, "size": size, "requested_size": 0, "state": "inactive", "frames": []}
        segment = {"device": 0, "address": BASE, "total_size": size, "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": 0}
        segment |= {"segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block]}
        # Of protocol 1, which keeps nothing beyond the first 256: numbers that nobody asks for afterwards.
        writer.put(b"ea" + writer.text("segments") + pickle.dumps([segment], 1)[:-1])
        writer.put(writer.text("allocator_settings") + b"}" + writer.text("external_annotations") + b"]u.")
        writer.flush()
    return {"entries": written, "events": events, "peak_bytes": sum((size + 511) // 512 * 512 for size in SIZES), "peak_blocks": len(SIZES)}


def main():
    out, entries = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    count = int(sys.argv[3]) if len(sys.argv) > 3 else max(100, entries // 1000)
    print(json.dumps(write(out, entries, count)))


if __name__ == "__main__":
    main()

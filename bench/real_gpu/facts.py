# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The numbers of a public history in a few kilobytes: what it takes to hold a re-run against it without the author's file.

    write(folder / "them.1234567.xz", Facts.of(history, events.Device.of_snapshot(snapshot, 0)))
    facts = read(folder / "them.1234567.xz")
    facts.device.events                      # [("alloc", 2097152, 0), ...]

A file is text compressed by xz: one line of JSON with source, versions, segments and a hash of the blocks in them; then a line an event, with the
first letters of its kind, its bytes, its stream, and for a free how many allocations ago the block was made ("-": before the history). No names of
files, functions or people's code are in it.
"""

import dataclasses
import hashlib
import json
import lzma

import events as histories

LETTERS = {
    "a": "alloc",
    "r": "free_requested",
    "c": "free_completed",
    "sa": "segment_alloc",
    "sf": "segment_free",
    "sm": "segment_map",
    "su": "segment_unmap",
    "o": "oom",
}
WORDS = {word: letters for letters, word in LETTERS.items()}
LONGEST = 64 << 20
FIELDS = ("repository", "commit", "path", "blob", "recorded_with", "gpu")


def digest(layout):
    return hashlib.sha256(json.dumps(layout, separators=(",", ":")).encode()).hexdigest()[:16]


@dataclasses.dataclass
class Facts:
    about: dict                    # FIELDS, and the device's number in the file
    device: histories.Device       # its layout is empty: only the hash is kept
    layout: str

    @classmethod
    def of(cls, history, device, number):
        return cls({**{name: getattr(history, name) for name in FIELDS}, "device": number}, device, digest(device.layout))


def lines_of(device):
    made = 0
    for (kind, size, stream), block in zip(device.events, device.blocks):
        line = f"{WORDS[kind]} {size} {stream}"
        if kind == "alloc":
            made += 1
        elif kind in histories.FREES:
            line += f" {made - block}" if block >= 0 else " -"
        yield line


def write(path, facts):
    head = {**facts.about, "segments": facts.device.segments, "layout": facts.layout, "allocated": facts.device.allocated, "events": len(facts.device.events)}
    text = "\n".join([json.dumps(head, separators=(",", ":")), *lines_of(facts.device)]) + "\n"
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path):
    with lzma.open(path) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise ValueError(f"{path} holds more than {LONGEST} bytes")
    first, *lines = text.decode().splitlines()
    head = json.loads(first)
    if head["events"] != len(lines):
        raise ValueError(f"{path} says {head['events']} events and has {len(lines)}")
    events, blocks, made = [], [], 0
    for line in lines:
        letters, size, stream, *age = line.split(" ")
        kind = LETTERS[letters]
        events.append((kind, int(size), int(stream)))
        if kind == "alloc":
            blocks.append(made)
            made += 1
        else:
            blocks.append(made - int(age[0]) if age and age[0] != "-" else -1)
    segments = [tuple(segment) for segment in head.pop("segments")]
    return Facts(head, histories.Device(events, blocks, segments, [], head.pop("allocated")), head.pop("layout"))

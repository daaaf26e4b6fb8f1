# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a program had when its history began: the final segments, and from them backwards through every event.

    start = rebuild(snapshot, 0)        # State(expandable=False, ranges=[Range(address, size, stream, small, blocks=[Block(...)])])

Of a block that is freed within the history only the request is known. What it took is that, rounded to 512 bytes, or more: PyTorch does not split off a
remainder of a megabyte or less. An allocation always begins a free range, so one that comes directly behind a block tells where that block ended; else
the next block does, where it is that near. Raises Inconsistent where the history contradicts itself.
"""

import bisect
import dataclasses

import snapshot_file

MIB = 1 << 20
SMALL_SEGMENT = 2 * MIB
LARGE_STEP = 20 * MIB
ROUNDING = 512


class Inconsistent(Exception):
    """The history and its final segments do not fit."""


@dataclasses.dataclass
class Block:
    address: int
    took: int        # 0: not known yet
    asked: int


@dataclasses.dataclass
class Range:
    """A segment, or mapped addresses of an expandable one."""

    address: int
    size: int
    stream: int
    small: bool
    blocks: dict = dataclasses.field(default_factory=dict)

    @property
    def end(self):
        return self.address + self.size


@dataclasses.dataclass
class State:
    expandable: bool
    ranges: list     # by address

    @property
    def bytes(self):
        return sum(each.size for each in self.ranges)


def blocks_of(segment):
    at = segment["address"]
    for block in segment["blocks"]:
        if block["state"].startswith("active"):
            address = block.get("address", at)
            yield address, Block(address, block["size"], block.get("requested_size", block["size"]))
        at += block["size"]


class Backwards:
    """The ranges while the events are taken back, last first."""

    def __init__(self, snapshot, device):
        self.ranges, self.addresses = {}, []
        for segment in snapshot_file.segments(snapshot, device):
            self.add(Range(segment["address"], segment["total_size"], segment["stream"], segment["segment_type"] == "small", dict(blocks_of(segment))))

    def add(self, added):
        self.ranges[added.address] = added
        bisect.insort(self.addresses, added.address)

    def remove(self, removed):
        del self.ranges[removed.address]
        self.addresses.remove(removed.address)

    def at(self, address):
        index = bisect.bisect_right(self.addresses, address) - 1
        found = self.ranges[self.addresses[index]] if index >= 0 else None
        if found is None or address >= found.end:
            raise Inconsistent(f"address {address:#x} lies in no segment")
        return found

    def unmap(self, address, size):
        """Takes mapped addresses out of the range that contains them."""
        whole = self.at(address)
        if address + size > whole.end:
            raise Inconsistent(f"{size} bytes at {address:#x} were not mapped as one")
        self.remove(whole)
        for start, end in ((whole.address, address), (address + size, whole.end)):
            if start < end:
                blocks = {where: block for where, block in whole.blocks.items() if start <= where < end}
                self.add(Range(start, end - start, whole.stream, whole.small, blocks))

    def map(self, address, size, stream, small):
        """Joins with neighbours of the same stream and kind."""
        joined = Range(address, size, stream, small)
        for near in [each for each in self.ranges.values() if each.stream == stream and each.small == small and each.address <= joined.end and address <= each.end]:
            self.remove(near)
            joined = Range(min(joined.address, near.address), max(joined.end, near.end) - min(joined.address, near.address), stream, small, {**joined.blocks, **near.blocks})
        self.add(joined)

    def take_back(self, entry):
        kind, address, size, stream = entry["action"], entry.get("addr", 0), entry["size"], entry.get("stream", 0)
        if kind == "alloc":
            if self.at(address).blocks.pop(address, None) is None:
                raise Inconsistent(f"the block at {address:#x} is made and never was there")
        elif kind == "free_completed":
            self.at(address).blocks[address] = Block(address, 0, size)
        elif kind == "segment_alloc":
            segment = self.at(address)
            if segment.blocks:
                raise Inconsistent(f"the segment at {address:#x} has blocks before it is made")
            self.remove(segment)
        elif kind == "segment_free":
            self.add(Range(address, size, stream, size == SMALL_SEGMENT))
        elif kind == "segment_map":
            self.unmap(address, size)
        elif kind == "segment_unmap":
            self.map(address, size, stream, size % LARGE_STEP != 0)


def rounded(size):
    return max(ROUNDING, -(-size // ROUNDING) * ROUNDING)


def learn(entries, ranges):
    """Sets what blocks took of which only the request is known, where an allocation behind them tells it."""
    live = sorted(address for each in ranges for address in each.blocks)
    unknown = {address: block for each in ranges if not each.small for address, block in each.blocks.items() if not block.took}
    for entry in entries:
        address = entry.get("addr", 0)
        if entry["action"] == "alloc":
            index = bisect.bisect_left(live, address)
            before = unknown.get(live[index - 1]) if index else None
            if before and 0 <= address - before.address - rounded(before.asked) <= MIB:
                before.took = address - before.address
            live.insert(index, address)
        elif entry["action"] == "free_completed":
            index = bisect.bisect_left(live, address)
            if index < len(live) and live[index] == address:
                del live[index]
            unknown.pop(address, None)


def settle(each, expandable):
    """What blocks took of which only the request is known."""
    order = sorted(each.blocks)
    for index, address in enumerate(order):
        block = each.blocks[address]
        end = order[index + 1] if index + 1 < len(order) else each.end
        if not block.took:
            block.took = rounded(block.asked)
            if not each.small and not expandable and end - address - block.took <= MIB:
                block.took = end - address
        if address + block.took > end:
            raise Inconsistent(f"the block at {address:#x} reaches into the next")


def rebuild(snapshot, device):
    entries = snapshot_file.entries(snapshot, device)
    expandable = any(segment.get("is_expandable") for segment in snapshot_file.segments(snapshot, device))
    expandable = expandable or any(entry["action"] in ("segment_map", "segment_unmap") for entry in entries)
    state = Backwards(snapshot, device)
    for entry in reversed(entries):
        state.take_back(entry)
    ranges = [state.ranges[address] for address in state.addresses]
    if not expandable:
        learn(entries, ranges)
    for each in ranges:
        settle(each, expandable)
    return State(expandable, ranges)

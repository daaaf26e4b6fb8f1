# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Files that are made to take far more memory or time than their size: what import_hostile_test.py holds `gpumemshim` against.

    python tests/e2e/import_bombs.py FOLDER [BYTES]      writes them, of about so many bytes each
"""

import gzip
import pathlib
import struct
import sys

BASE = 0x7F0000000000


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def kept(value, index):
    return value + b"q" + bytes([index])


KEYS = ("action", "addr", "size", "frames", "filename", "name", "line", "alloc", "segment_map", "segment_unmap", "device_traces")
WORDS = b"".join(kept(text(word), index) + b"0" for index, word in enumerate(KEYS))  # kept, and popped


def word(name):
    return b"h" + bytes([KEYS.index(name)])


def entry(action, address, size, more=b""):
    return b"}(" + word("action") + word(action) + word("addr") + number(address) + word("size") + number(size) + more + b"u"


def snapshot(entries):
    """A snapshot with one device, whose entries are written as given."""
    return b"\x80\x02" + WORDS + b"}(" + word("device_traces") + b"](](" + b"".join(entries) + b"eeu."


def nested(size):
    return b"\x80\x02" + b"]" * (size // 2) + b"a" * (size // 2 - 1) + b"."


def long_tuple(size):
    return b"\x80\x02(" + b"N" * size + b"t."


def memo(size):
    return b"\x80\x04" + b"]\x94" * (size // 2) + b"."


def scattered_memo(size):
    return b"\x80\x02N" + b"".join(b"r" + struct.pack("<I", 2**32 - 7 * i - 1) for i in range(size // 5)) + b"."


def texts(size):
    return b"\x80\x04(" + b"".join(b"\x8c\x06" + struct.pack("<I", i).hex()[:6].encode() for i in range(size // 8)) + b"l."


def numbers(size):
    return b"\x80\x02(" + b"".join(b"G" + struct.pack(">d", i + 0.5) for i in range(size // 9)) + b"l."


def one_entry_often(size):
    one = kept(entry("alloc", BASE, 512), 100)
    return snapshot([one, b"hd" * (size // 2)])


def one_list_often(size):
    trace = b"](" + kept(entry("alloc", BASE, 512), 100) + b"hd" * (size // 2) + b"eq\x65"
    return b"\x80\x02" + WORDS + b"}(" + word("device_traces") + b"](" + trace + b"he" * 1000 + b"eu."


def all_alive(size):
    one = len(entry("alloc", 0, 0))
    return snapshot(entry("alloc", BASE + 512 * i, 512) for i in range(size // one))


def all_freed(size):
    """Everything was there before the history began."""
    free = text("free_completed")
    return snapshot(b"}(" + word("action") + free + word("addr") + number(BASE + 512 * i) + word("size") + b"K\x05u" for i in range(size // 45))


def stacks(size):
    """Lists that share their frames, each in another order: every one is a thousand new nodes."""
    frames = [kept(b"}(" + word("name") + text(f"f{i}") + b"u", 20 + i) for i in range(200)]
    get = [b"h" + bytes([20 + i]) for i in range(200)]
    lists = []
    for i in range(size // 2100):
        order = [get[(i * 31 + j * (1 + i % 97)) % 200] for j in range(1000)]
        lists.append(entry("alloc", BASE + 512 * i, 512, word("frames") + b"](" + b"".join(order) + b"e"))
    return snapshot([entry("alloc", BASE, 512, word("frames") + b"](" + b"".join(frames) + b"e"), *lists])


def long_names(size):
    """Frames that share one long text, each on another line."""
    long = kept(text("x" * 16000), 100) + b"0"
    frame = b"}(" + word("filename") + b"hd" + word("name") + b"hd" + word("line")
    frames = [frame + b"J" + struct.pack("<i", i) + b"u" for i in range(size // 18)]
    per_stack = 1000
    entries = [
        entry("alloc", BASE + 512 * i, 512, word("frames") + b"](" + b"".join(frames[i : i + per_stack]) + b"e") for i in range(0, len(frames), per_stack)
    ]
    return b"\x80\x02" + long + snapshot(entries)[2:]


def cuts(size):
    """A range that is cut into many pieces, and mapped as a whole as often."""
    one = len(entry("segment_map", 0, 0))
    count = size // one // 2
    pieces = [entry("segment_unmap", BASE + 8192 * i, 4096) for i in range(count)]
    return snapshot(pieces + [entry("segment_map", BASE, 8192 * count)] * count)


def one_dict_of_many_keys(size):
    """An entry is looked up by key: one with many keys, often."""
    keys = b"".join(b"J" + struct.pack("<i", i) + b"N" for i in range(size // 2 // 6))
    one = b"}(" + word("action") + word("alloc") + keys + b"uq\x64"
    return snapshot([one, b"hd" * (size // 4)])


def packed(size):
    return gzip.compress(nested(size), 9, mtime=0)


def packed_zeros(size):
    return gzip.compress(b"\x80\x02" + b"\0" * size, 9, mtime=0)


MEMORY = '{"ph":"i","name":"[memory]","ts":%d,"args":{"Addr":%d,"Bytes":512,"Device Id":0,"Device Type":1}},'


def profile_text(size):
    return b'{"traceEvents":[{"name":"' + b"x" * size + b'"}]}'


def profile_events(size):
    one = len(MEMORY % (1 << 30, BASE))
    return b'{"traceEvents":[' + "".join(MEMORY % (i, BASE + 512 * i) for i in range(size // one)).encode() + b"{}]}"


def profile_ranges(size):
    one = '{"ph":"X","cat":"user_annotation","name":"%020d%s","ts":1,"dur":2},'
    body = "".join(one % (i, "x" * 4000) for i in range(size // 4060))
    return b'{"traceEvents":[' + (MEMORY % (1, BASE)).encode() + body.encode() + b"{}]}"


def rmm_threads(size):
    lines = "".join(f"{i:024d},00:00:00.000001,allocate,0x{BASE + 512 * i:x},1024,0x0\n" for i in range(size // 75))
    return b"Thread,Time,Action,Pointer,Size,Stream\n" + lines.encode()


BOMBS = (
    nested, long_tuple, memo, scattered_memo, texts, numbers, one_entry_often, one_list_often, all_alive, all_freed, stacks, long_names, cuts,
    one_dict_of_many_keys, packed, packed_zeros, profile_text, profile_events, profile_ranges, rmm_threads,
)  # fmt: skip


def main():
    folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 20
    folder.mkdir(parents=True, exist_ok=True)
    for bomb in BOMBS:
        (folder / bomb.__name__).write_bytes(bomb(size))


if __name__ == "__main__":
    main()

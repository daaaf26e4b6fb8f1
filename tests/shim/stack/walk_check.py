# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Compares the shim's walk with sys._getframe at the point of the call: equal in function, file, line and instruction."""

import ctypes
import sys
import threading

QUALIFIED = sys.version_info >= (3, 11)
MAX_NAME, MAX_FILENAME = 512, 1024  # bytes that the shim copies


def as_copied(text, limit):
    """What is left of a text once the shim has it: UTF-8, surrogates replaced, cut at a character."""
    data = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text).encode()
    return data[:limit].decode("utf-8", "ignore")


class Checker:
    """`check()` is the point; called anywhere, from any thread. A difference is kept and raised by `finish()`, since a shape may swallow it."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.local = threading.local()
        self.checks = 0
        self.frames = 0
        self.differences = []
        self.stack_of_hash = {}
        self.code_of_key = {}

    def walk(self):
        """A buffer of the thread's and how much of it the walk filled. Anything may run check() again (a finalizer does), so nobody else has this one."""
        if not hasattr(self.local, "buffers"):
            self.local.buffers = []
        buffer = self.local.buffers.pop() if self.local.buffers else ctypes.create_string_buffer(1 << 20)
        return buffer, self.library.WalkInto(buffer, len(buffer))

    def check(self):
        (buffer, size), frame = self.walk(), sys._getframe()
        try:
            text = ctypes.string_at(buffer, size).decode()
            self.local.buffers.append(buffer)
            self.judge(text, frame)
        except Exception as error:  # pylint: disable=broad-except
            self.differ(repr(error))
        self.checks += 1
        return self.checks

    def judge(self, text, frame):
        if text.startswith("REFUSED"):
            return self.differ(text)
        stack_hash, *rows = text.split("\x1e")[:-1]
        got = [row.split("\x1f") for row in rows][1:]  # walk() itself has ended
        self.compare(got, frame)
        self.definitions(stack_hash, got)
        self.frames += len(got)

    def compare(self, got, frame):
        depth = 0
        while frame is not None:
            code = frame.f_code
            name = as_copied(code.co_qualname if QUALIFIED else code.co_name, MAX_NAME)
            line = code.co_firstlineno if frame.f_lineno is None else frame.f_lineno
            want = [name, as_copied(code.co_filename, MAX_FILENAME), str(code.co_firstlineno), str(max(frame.f_lasti, 0)), str(line)]
            # check() has gone on since, all others stand still. A function may be traced before its first instruction, which a record cannot say.
            compared = 3 if depth == 0 or frame.f_lasti < 0 else 5
            if depth >= len(got) or got[depth][:compared] != want[:compared]:
                return self.differ(f"frame {depth}: got {got[depth][:5] if depth < len(got) else 'none'}, want {want}")
            frame, depth = frame.f_back, depth + 1
        if depth != len(got):
            self.differ(f"{len(got)} frames, want {depth}")

    def definitions(self, stack_hash, got):
        """One hash never names two stacks, one key never two code objects. (One stack may have two hashes: its code may have been made twice.)"""
        stack = [row[:5] for row in got]
        if self.stack_of_hash.setdefault(stack_hash, stack) != stack:
            self.differ(f"stack {stack_hash} is both {self.stack_of_hash[stack_hash]} and {stack}")
        for row in got:
            code = (row[0], row[1], row[2], row[6])
            if self.code_of_key.setdefault(row[5], code) != code:
                self.differ(f"code {row[5]} is both {self.code_of_key[row[5]]} and {code}")

    def differ(self, text):
        self.differences.append(text[:2000])

    def finish(self):
        if self.differences:
            raise SystemExit(f"{len(self.differences)} of {self.checks} stacks differ; the first:\n" + "\n".join(self.differences[:3]))

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Mixed stacks in a real interpreter: every run of its loop stands for the Python frames that it runs, no more and no fewer.

usage: mixed_frames_test.py <libshim_stack_mixed_probe.so>
"""
import ctypes
import sys
import threading

try:
    import greenlet
except ImportError:
    greenlet = None

probe = ctypes.CDLL(sys.argv[1])
ONE_RUN_RUNS_MANY = sys.version_info >= (3, 11)
BUFFER = ctypes.create_string_buffer(1 << 20)  # one for all: the kernel clears each new one, which takes longer than the stack
checks = 0


def mixed():
    size = probe.MixInto(BUFFER, len(BUFFER))
    text = BUFFER[:size].decode()
    if text.startswith("REFUSED"):
        print("not read:", text)
        sys.exit(0)
    assert text[:2] in ("N\n", "P "), text
    return text.splitlines()


def names_of(frame):
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def check():
    """Returns the shape: names of Python frames, "-" for native ones in between."""
    global checks
    lines = mixed()
    python = [line[2:] for line in lines if line.startswith("P ")]
    assert python == ["mixed", *names_of(sys._getframe())], lines
    assert "E" not in lines, lines
    if greenlet and greenlet.getcurrent().parent:
        # What lies behind is the C stack of others.
        assert lines[-2].startswith("P ") and lines[-1] == "...", lines
    else:
        # Threads and the program begin in native code, so behind the outermost Python frame there is some.
        assert lines[-1] == "|", lines
    checks += 1
    shape = []
    for line in lines[:-1]:
        name = line[2:] if line.startswith("P ") else "-"
        if name != "-" or shape[-1:] != ["-"]:
            shape.append(name)
    return shape[shape.index("check") + 1 :]


def expect(got, called):
    """`called`: innermost first; "+" where Python called Python, "-" where a C function stood in between."""
    want = [] if ONE_RUN_RUNS_MANY else ["-"]
    for part in called.split():
        want += {"+": [] if ONE_RUN_RUNS_MANY else ["-"], "-": ["-"]}.get(part, [part])
    assert got[: len(want)] == want, (got, want)


shapes = []


def leaf(*_):
    shapes.append(check())
    return 0


def plain(_=None):
    return leaf()


def keyed():
    return sorted([1], key=plain)


def plain_again():
    return keyed()


def recurse(depth):
    return leaf() if depth == 0 else recurse(depth - 1)


def mapped(depth):
    return leaf() if depth == 0 else list(map(mapped, [depth - 1]))


def generator():
    yield leaf()
    yield from (plain() for _ in range(2))


class Made:
    def __init__(self):
        plain()

    def __del__(self):
        leaf()

    def __getattr__(self, name):
        return leaf()

    def __eq__(self, other):
        return leaf() == 0


def main():
    plain_again()
    expect(shapes.pop(), "leaf + plain - keyed + plain_again + main")
    recurse(5)
    expect(shapes.pop(), "leaf + recurse + recurse + recurse + recurse + recurse + recurse + main")
    mapped(3)
    expect(shapes.pop(), "leaf + mapped - mapped - mapped - mapped + main")
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(plain)
    callback(1)
    expect(shapes.pop(), "leaf + plain - main")
    # The interpreter specialises what runs often: the same again and again.
    for _ in range(200):
        list(generator())
        for _ in generator():
            pass
        made = Made()
        made.missing, made == made
        del made
        try:
            leaf(1 / 0 if len(shapes) < 0 else 1)
        finally:
            plain()
        [leaf() for _ in range(2)]
        eval("plain()")
        (lambda: plain())()
    thread = threading.Thread(target=lambda: [mapped(2), recurse(3)])
    thread.start()
    thread.join()
    if greenlet:
        switching()


def switching():
    """Greenlets that switch to each other at several depths of the C stack."""

    def one(depth):
        if depth:
            return list(map(one, [depth - 1]))
        leaf()
        second.switch()
        mapped(2)

    def other():
        mapped(1)
        first.switch()

    for depth in range(5):
        first, second = greenlet.greenlet(one), greenlet.greenlet(other)
        first.switch(depth)


main()
assert checks > 2000, checks
print("%d mixed stacks in %s, %s" % (checks, sys.version.split()[0], "with greenlets" if greenlet else "greenlet is not installed here"))
